"""Whether purging works in the whole lake: one fact, for status, doctor, runs and metrics."""
