"""Does the suite catch a planner that is wrong? `python -m tests.mutation` breaks it and looks."""
