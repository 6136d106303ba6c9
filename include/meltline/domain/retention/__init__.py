"""Retention: which snapshots are kept and why, by policies, holds, consumers and writers."""
