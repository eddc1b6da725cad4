"""LearnedPacking: prefer the nodes where a pod leaves the most usable room, as an agent learned in simulations."""

from __future__ import annotations

from learned_packing.plugin import LearnedPacking, LearnedPackingArgs
from learned_packing.scorer import Scorer

__all__ = ["LearnedPacking", "LearnedPackingArgs", "Scorer"]
