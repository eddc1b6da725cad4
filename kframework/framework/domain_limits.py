"""Limits by domain, which `filter_domains` returns: how many pods may be where a node label has the same value."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from kframework.state.topology import Tally, Topology
from kframework.values.scores import Rows, Scores

#: More pods than there can be.
MANY = 2**62


class DomainLimit(msgspec.Struct, frozen=True):
    """The numbers of pods per domain of a topology at which its nodes are open: from `least` to `most`.

    Other nodes are rejected for the reason `bits`; nodes without the label for `unlabelled`, if that is not 0. `tally`
    is read when it is needed, so a limit stays right while pods come and go.
    """

    topology: Topology
    tally: Tally
    least: int = -MANY
    most: int = MANY
    bits: int = 1
    unlabelled: int = 0

    def reasons(self) -> Scores:
        """Return the reason bits of each domain by its code, 0 for open ones."""
        pods = self.tally.values
        reasons: Scores = ((pods < self.least) | (pods > self.most)) * np.int64(self.bits)
        reasons[0] = self.unlabelled
        return reasons


def reject_rows(limits: Sequence[DomainLimit], rows: Rows, number: int) -> Scores:
    """Return the reason bits of the first limit that each of these `number` rows does not keep, 0 if it keeps all."""
    bits = np.zeros(number, dtype=np.int64)
    for limit in reversed(limits):
        reasons = limit.reasons()[limit.topology.values[rows]]
        bits = np.where(reasons, reasons, bits)
    return bits
