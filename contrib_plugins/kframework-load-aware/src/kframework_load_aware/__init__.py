"""Scheduling by measured load: TargetLoadPacking, LoadVariationRiskBalancing and LowRiskOverCommitment."""

from __future__ import annotations

from kframework_load_aware.load_variation import LoadVariationRiskBalancing
from kframework_load_aware.low_risk import LowRiskOverCommitment
from kframework_load_aware.target_load import TargetLoadPacking

__all__ = ["LoadVariationRiskBalancing", "LowRiskOverCommitment", "TargetLoadPacking"]
