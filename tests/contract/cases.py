"""The cases of all plugins, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.contract import attached_volumes, devices, neighbours, nodes, outside, recipes, volumes
from tests.contract.case import Case

__all__ = ["CASES"]

CASES: Mapping[str, Case] = {
    **{name: Case() for name in ("DefaultPreemption", "SchedulingGates")},
    **nodes.CASES,
    **neighbours.CASES,
    **attached_volumes.CASES,
    **volumes.CASES,
    **devices.CASES,
    **outside.CASES,
    **recipes.CASES,
}
