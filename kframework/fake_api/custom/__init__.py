"""Custom resources: what users define, and what becomes of objects of such kinds."""
