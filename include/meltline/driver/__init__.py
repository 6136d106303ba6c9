"""One Spark driver for all steps of a run, where they share a machine (docs/decisions/039).

To start Spark takes longer than most nights' work of a step. So the first step of a run leaves a
process behind that has a JVM and all that steps import; each step is a fork of it, which has not
read or remembered anything yet, with a Spark session of its own.
"""
