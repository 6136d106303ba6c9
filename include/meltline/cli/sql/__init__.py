"""Commands that read the past and speak SQL."""
