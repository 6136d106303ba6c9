"""Commands for chunks of time: replication, tiering, drops by age, and their status."""
