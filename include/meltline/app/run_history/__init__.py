"""Past runs and plans, for people and reports; no decision reads them."""
