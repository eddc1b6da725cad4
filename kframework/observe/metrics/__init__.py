"""Prometheus metrics: kube-scheduler's, by its names, of what the records tell and of what stands in the engine."""
