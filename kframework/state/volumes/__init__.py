"""Volumes, claims and attachments, on nodes and as reserved for pods."""
