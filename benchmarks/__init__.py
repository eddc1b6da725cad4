"""Measurements, never asserted: `python -m benchmarks` runs all, `python -m benchmarks.plugins` one."""
