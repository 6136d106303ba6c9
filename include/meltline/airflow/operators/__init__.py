"""The operators behind the tasks: a step as a Spark app, a step on a batch, a command."""
