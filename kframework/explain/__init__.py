"""Explanations: why a pod waits, or why it is where it is, and what would help."""

from __future__ import annotations
