"""Test tiers: what `make quick`, `make test`, `make test-all` and `make nightly` run."""
