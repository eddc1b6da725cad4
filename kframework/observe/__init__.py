"""Observability of a scheduler: traces, metrics, recordings, pages, explanations."""
