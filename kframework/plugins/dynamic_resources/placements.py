"""The door for plugins that score nodes by the devices that a pod's claims would get there.

DynamicResources looks these up before any plugin scores, and remembers them by node until devices there come or go.
Whoever comes in here has them measured when they are found: nothing is searched for twice, and no node is measured
again on which nothing has changed. Nothing can be chosen otherwise: a node's devices are those that were found first.

What stands here is public, but moves with the API of devices.
"""

from __future__ import annotations

from kframework.framework.cycle_state import CycleState
from kframework.plugins.dynamic_resources.allocator import Allocated, Chosen
from kframework.plugins.dynamic_resources.cycle import CLAIMS
from kframework.plugins.dynamic_resources.feasibility import Measure, Placement
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.slices import DeviceId, PoolDevice
from kframework.state.nodes import NodeTable
from kframework.values.scores import Rows, Scores

__all__ = [
    "Allocated",
    "Chosen",
    "DeviceId",
    "Measure",
    "Placement",
    "Pool",
    "PoolDevice",
    "asks_for_devices",
    "measured",
]


def asks_for_devices(state: CycleState) -> bool:
    """Return whether devices are to be allocated for the pod of this cycle; never without DynamicResources."""
    claims = state.get(CLAIMS)
    return claims is not None and claims.asks_for_devices


def measured(measure: Measure, state: CycleState, nodes: NodeTable, rows: Rows) -> Scores:
    """Say of each row, of nodes that passed Filter, what a measure says of the devices that the pod would get there.

    It is 0 where it needs none. Give the same measure each time, one that depends on its argument alone.
    """
    claims = state[CLAIMS]
    assert claims is not None, "whoever asks this has asked whether the pod asks for devices"
    return claims.measured(measure, nodes, rows)
