"""Storage by stage, and why each file is kept."""
