"""Orphan files: candidates, scan roots and the sweep."""
