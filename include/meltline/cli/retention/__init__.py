"""Commands for retention: policies, holds, leases, consumers."""
