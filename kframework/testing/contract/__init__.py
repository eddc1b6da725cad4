"""The contract of plugins as promises, each with a check of its own."""
