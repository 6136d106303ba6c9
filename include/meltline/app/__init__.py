"""One module per step of the chain. They decide nothing that the domain can decide."""
