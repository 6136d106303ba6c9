"""The state of purging over all tables of the lake."""
