"""Set-up of an installation, and its diagnosis."""
