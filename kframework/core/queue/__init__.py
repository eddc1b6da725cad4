"""The scheduling queue: the order in which pods are tried, and what failed pods wait for."""

from __future__ import annotations
