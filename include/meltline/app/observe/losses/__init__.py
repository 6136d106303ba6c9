"""What a table has lost since it was last seen: commits that vanished, and files that broke."""
