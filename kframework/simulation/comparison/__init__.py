"""Comparisons of two configurations: on a cluster that is simulated, or decision by decision on a recording."""
