"""DeviceBinPacking: keep whole devices and large partitions free."""

from __future__ import annotations

from kframework_device_packing.packing import DeviceBinPacking

__all__ = ["DeviceBinPacking"]
