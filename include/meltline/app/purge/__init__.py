"""Planning purges, checking them once more, and deleting."""
