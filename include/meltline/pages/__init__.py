"""What people see in a browser: storage over the days, runs, plans, and what gates found."""
