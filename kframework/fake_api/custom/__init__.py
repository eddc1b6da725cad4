"""Custom resources: their definitions, schemas and validation rules."""
