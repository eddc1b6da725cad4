"""Defaults of Kubernetes' own kinds."""
