"""Policies, holds, leases, consumers and streaming writers."""
