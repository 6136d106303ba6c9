"""What is kept, and why: policies, holds, consumers, writers, retained snapshots."""
