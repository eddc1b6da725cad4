"""Kubernetes objects as msgspec structs: the fields a scheduler reads, and the pure rules on them."""
