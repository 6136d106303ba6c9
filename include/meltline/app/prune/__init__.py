"""Prunes: deletes archived snapshots past their retention in cold, at an operator's command."""
