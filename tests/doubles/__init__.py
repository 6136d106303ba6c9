"""Test doubles: the ports in memory, held equal to the real adapters by `tests/contract/`."""
