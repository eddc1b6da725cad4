"""Maintenance: no pod starts on a node whose maintenance begins before it ends."""

from __future__ import annotations

from maintenance.maintenance import STARTS, Maintenance, MaintenanceArgs

__all__ = ["STARTS", "Maintenance", "MaintenanceArgs"]
