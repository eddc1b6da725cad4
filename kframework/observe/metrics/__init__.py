"""Prometheus metrics with kube-scheduler's names, from the records and from the engine's state."""
