"""The scheduling queue: which pod is tried next, and what those that failed wait for."""

from __future__ import annotations
