"""Cheapest: the node where a pod costs least is preferred."""

from __future__ import annotations

from cheapest.cheapest import MAX_PER_HOUR, Cheapest
from cheapest.prices import CheapestArgs

__all__ = ["MAX_PER_HOUR", "Cheapest", "CheapestArgs"]
