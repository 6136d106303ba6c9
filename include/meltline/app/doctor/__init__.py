"""Setting up, and finding what is wrong."""
