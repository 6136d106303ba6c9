"""Commands that run steps, and the entry points of Spark apps and of the driver."""
