"""Orphan files: candidates, the roots they are looked for in, the sweep."""
