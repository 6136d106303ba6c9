"""The pure heart of Meltline: facts, rules and decisions, on the standard library alone."""
