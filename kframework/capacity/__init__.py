"""Questions about capacity, answered by scheduling in a simulation: what fits, and what a drain leads to."""
