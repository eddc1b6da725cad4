"""Rejections: what stands against a node, as one integer.

    order of the plugin << 35 | source << 32 | bits        PASS is the largest integer

So *the first rejection in configured order is the minimum*: of remembered answers, of plugins asked afresh, of
nominated pods and of preemption alike. `source` says whose `bits` these are: reason bits of the plugin's own
`filter_nodes`, or a place in a StatusTable that belongs to a layer or to the attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from kframework.core.runtime.steps import FilterStep
from kframework.state.pods import PendingPod
from kframework.values.status import Status

#: No rejection.
PASS = int(np.iinfo(np.int64).max)

#: Nothing is known of a row that the search did not reach; it does not pass.
UNREACHED = PASS - 1

_ORDER = 35
_SOURCE = 32
_BITS = (1 << _SOURCE) - 1

#: The order of what comes first: no plugin is asked about the node as it is then.
FIRST = -1

#: Whose bits a rejection carries: the plugin's, or a table of the lower layer, the upper layer, the answers beside
#: nominated pods, or the attempt.
PLUGIN, LOWER, UPPER, NOMINATED, ATTEMPT = range(5)


def order_of(rejection: int) -> int:
    """Return the order of the plugin that objects; larger than any for PASS."""
    return rejection >> _ORDER


def source_of(rejection: int) -> int:
    """Return whose bits a rejection carries."""
    return rejection >> _SOURCE & 7


def bits_of(rejection: int) -> int:
    """Return the bits of a rejection."""
    return rejection & _BITS


def of_plugin(order: int) -> int:
    """Return the rejection of a plugin, to which its reason bits are added."""
    return order << _ORDER


class StatusTable(msgspec.Struct, eq=False):
    """Statuses that rejections refer to by number; one that is no rejection is a fault.

    A fault counts only if kube-scheduler's search would have reached its node, so it is kept like any other answer.
    """

    source: int
    statuses: list[Status] = []
    faults: int = 0
    _numbers: dict[Status, int] = {}

    def rejection(self, order: int, status: Status) -> int:
        """Put a Status in the table and return the rejection that refers to it."""
        number = self._numbers.get(status)
        if number is None:
            number = self._numbers[status] = len(self.statuses)
            self.statuses.append(status)
            self.faults += not status.rejected
        return order << _ORDER | self.source << _SOURCE | number

    def clear(self) -> None:
        """Forget all statuses; the rejections that refer to them must be made anew."""
        self.statuses.clear()
        self._numbers.clear()
        self.faults = 0

    def __len__(self) -> int:
        return len(self.statuses)


def in_words(rejection: int, tables: Iterable[StatusTable], filters: Sequence[FilterStep], pod: PendingPod) -> Status:
    """Put a rejection into words: by the table that it refers to, or by the plugin whose bits it carries."""
    for table in tables:
        if table.source == source_of(rejection):
            return table.statuses[bits_of(rejection)]
    return filters[order_of(rejection)].explain(pod, bits_of(rejection))
