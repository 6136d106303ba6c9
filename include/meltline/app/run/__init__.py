"""Runs: the chain of stages, their plans and their summary."""
