"""Steps of a run, the plans that each step works on, and the summary of the run."""
