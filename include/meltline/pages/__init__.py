"""Web pages: storage over the days, runs, plans, and the gates' findings."""
