"""Schemas of objects: OpenAPI documents, decoding, defaults, validation."""
