"""The facts that gates judge, each found apart from the planner."""
