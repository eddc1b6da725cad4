"""Schemas of the served objects: OpenAPI documents, addresses, shared specs, and rules on changes."""
