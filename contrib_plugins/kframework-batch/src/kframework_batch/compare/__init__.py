"""Both engines on one workload: a trace of jobs goes through the pod engine and through sessions, and is measured."""

from __future__ import annotations
