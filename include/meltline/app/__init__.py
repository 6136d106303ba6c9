"""Application layer: one package per capability. It makes no decision that the domain can make."""
