"""Points of the past, and which snapshot answers for them."""
