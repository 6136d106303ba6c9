"""The pure core: facts, rules and decisions, with the standard library alone."""
