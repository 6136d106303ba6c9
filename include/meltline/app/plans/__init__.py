"""What was planned and run before: for those who look, and never for those who decide."""
