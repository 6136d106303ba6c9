"""Commands that work, and the entry of the Spark apps."""
