"""Commands about chunks of time: replicated, tiered, dropped by age, and how they stand."""
