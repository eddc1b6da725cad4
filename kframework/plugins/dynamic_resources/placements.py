"""The interface for plugins that score nodes by the devices that a pod's claims would get there.

DynamicResources chooses these before scoring, and caches them by node until devices there are allocated or released. A
measure is computed with the choice: nothing is searched twice, and unchanged nodes are not measured again. The choice
itself cannot be changed: a node gets the first devices that match.

This module is public, but changes with the API of devices.
"""

from __future__ import annotations

from kframework.framework.cycle_state import CycleState
from kframework.plugins.dynamic_resources.allocator import Allocations, ChosenDevice
from kframework.plugins.dynamic_resources.cycle import CLAIMS
from kframework.plugins.dynamic_resources.feasibility import DevicePlacement, Measure
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.slices import DeviceId, PoolDevice
from kframework.state.nodes import NodeTable
from kframework.values.scores import Rows, Scores

__all__ = [
    "Allocations",
    "ChosenDevice",
    "DeviceId",
    "DevicePlacement",
    "Measure",
    "Pool",
    "PoolDevice",
    "measure_rows",
    "requests_devices",
]


def requests_devices(state: CycleState) -> bool:
    """Return whether devices must be allocated for the pod of this cycle; False without DynamicResources."""
    claims = state.get(CLAIMS)
    return claims is not None and claims.requests_devices


def measure_rows(measure: Measure, state: CycleState, nodes: NodeTable, rows: Rows) -> Scores:
    """Return for each row that passed Filter the measure of the devices that the pod would get there.

    It is 0 if it needs none. Pass the same measure each time, one that depends on its argument alone.
    """
    claims = state[CLAIMS]
    assert claims is not None, "call requests_devices first"
    return claims.measure_rows(measure, nodes, rows)
