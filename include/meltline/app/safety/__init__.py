"""What no plan may take: roots, other names, protected files, stored plans, the stop switch."""
