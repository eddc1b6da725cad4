"""Explanations: why a pod waits, or why it is where it is, and what would help."""

from __future__ import annotations

from kframework.observe.explain.account import explain, explaining
from kframework.observe.explain.explanation import Explanation, Unexplainable
from kframework.observe.explain.finding import known_pod, not_known
from kframework.observe.explain.routes import explain_routes

__all__ = ["Explanation", "Unexplainable", "explain", "explain_routes", "explaining", "known_pod", "not_known"]
