"""The configuration file `meltline.yaml`: its schema, its values, and loading it."""
