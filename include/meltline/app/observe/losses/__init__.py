"""Losses of tables since the last observation: vanished commits and torn files."""
