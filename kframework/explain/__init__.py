"""Explanations: why a pod waits, or why it is where it is, and what would help."""

from __future__ import annotations

from kframework.explain.account import explain, explaining
from kframework.explain.explanation import Explanation, Unexplainable
from kframework.explain.finding import known_pod, not_known
from kframework.explain.routes import explain_routes

__all__ = ["Explanation", "Unexplainable", "explain", "explain_routes", "explaining", "known_pod", "not_known"]
