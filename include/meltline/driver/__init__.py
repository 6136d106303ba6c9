"""One Spark driver process for all steps of a run, if they share a machine (docs/decisions/039).

Starting Spark takes longer than a step's work on most nights. So the first step of a run leaves a
process behind that has a JVM and all imports. Each step is a fork of it with its own Spark session;
a fork starts without any state of an earlier step.
"""
