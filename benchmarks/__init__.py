"""Measurements, never asserted: `python -m benchmarks` puts targets and figures side by side, names run others."""
