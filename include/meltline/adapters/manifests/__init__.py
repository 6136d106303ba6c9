"""Readers of manifest lists and manifests, and of the Avro container beneath them."""
