"""Commands for archived history."""
