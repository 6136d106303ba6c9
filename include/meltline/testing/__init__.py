"""The ports in memory, for tests: shipped, so that programs built on Meltline can be tested, too."""
