"""The ends: Meltline alone on what is as large as it may become, a step at a time, at two sizes."""
