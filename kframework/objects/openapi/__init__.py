"""Kubernetes' types as its OpenAPI document defines them; the README names the document and its source."""
