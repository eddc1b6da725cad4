"""GpuPacking: fill up GPUs such that large pods still find room."""

from __future__ import annotations

from kframework_gpu_packing.packing import GpuPacking, GpuPackingArgs, TypicalPods

__all__ = ["GpuPacking", "GpuPackingArgs", "TypicalPods"]
