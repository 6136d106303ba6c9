"""Policies, holds, leases, consumers and writers, as commands set them and steps read them."""
