"""Sweeps: many simulations that differ in configuration, cluster and seed, and what their results say."""
