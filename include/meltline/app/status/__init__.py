"""State of purging in the whole lake, shared by `meltline status`, doctor, runs and metrics."""
