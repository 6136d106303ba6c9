"""Rewrites hot's manifests, lists and delete files with the paths of the copies in cold."""
