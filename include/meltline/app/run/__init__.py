"""Runs: the list of steps, their plans and their summary."""
