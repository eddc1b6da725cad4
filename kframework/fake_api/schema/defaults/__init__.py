"""Defaults of Kubernetes' own kinds.

Where they are the same for all objects they are a schema with defaults, as in CustomResourceDefinitions.
"""
