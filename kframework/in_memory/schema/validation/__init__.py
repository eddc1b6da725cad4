"""Validation of Kubernetes' own kinds, as far as users meet its errors daily.

Objects are plain data, already decoded and with defaults, so that fields have their types.
"""
