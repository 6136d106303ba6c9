"""Gates: what must hold before a step that destroys, as plain data (PX-1 to PX-5)."""
