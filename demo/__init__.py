"""The demo: a warehouse of real flights with a real past, and the picture of how it melts."""
