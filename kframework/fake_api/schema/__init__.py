"""What the API server knows of the shape of objects: OpenAPI documents, decoding, defaults, validation.

Fields and their types come from Kubernetes' OpenAPI document (`kframework.objects.openapi`).
"""
