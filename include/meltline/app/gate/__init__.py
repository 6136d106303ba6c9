"""Gates: collect facts about plans independently of the planner, and give verdicts."""
