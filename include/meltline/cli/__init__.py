"""The `meltline` command."""
