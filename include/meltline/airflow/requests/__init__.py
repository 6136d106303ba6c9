"""What a run of a DAG asks for: its form, its day, its words for the command, its settings."""
