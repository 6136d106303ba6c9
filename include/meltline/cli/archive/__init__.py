"""Commands about archived history."""
