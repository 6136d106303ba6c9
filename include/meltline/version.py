"""Which build of Meltline this is."""

VERSION = "0.1.0"
