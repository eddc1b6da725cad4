"""Kubernetes' types as its OpenAPI document defines them; the README beside this names the document and its source."""
