"""The ports in memory, for tests: shipped, so that programs on Meltline can be tested, too."""
