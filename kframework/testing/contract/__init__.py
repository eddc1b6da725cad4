"""The contract of plugins as promises: each is a check of its own, and all are asked of one plugin."""
