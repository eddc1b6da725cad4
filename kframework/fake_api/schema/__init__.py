"""Schemas of objects: OpenAPI documents, decoding, defaults, validation.

Fields and types come from Kubernetes' OpenAPI document (`kframework.objects.openapi`).
"""
