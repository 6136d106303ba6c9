"""Commands about what is kept: policies, holds, leases, consumers."""
