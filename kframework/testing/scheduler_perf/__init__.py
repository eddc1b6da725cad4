"""Workloads as Kubernetes' scheduler_perf defines them, read unchanged and run on a cluster in memory."""
