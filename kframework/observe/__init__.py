"""What is told about a scheduler: traces, metrics, recordings, pages, explanations."""
