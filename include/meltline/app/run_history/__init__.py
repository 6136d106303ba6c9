"""Past runs and plans, for display and reports; no decision depends on them."""
