"""A scheduler as a process: its options, its endpoints, its lease."""
