"""Limits by domain: what they reject, and which of several gives the reason."""

from __future__ import annotations

import numpy as np

from kframework.framework.domain_limits import DomainLimit, reject_rows
from kframework.state.columns import Column
from kframework.state.topology import Tally, Topology


def topology(*values: str | None) -> Topology:
    made = Topology("rack", Column(len(values)))
    for row, value in enumerate(values):
        made.put(row, value)
    return made


def tally(*pods: int) -> Tally:
    made = Tally(64)
    made.values[1 : len(pods) + 1] = pods
    return made


def test_domain_with_fewer_or_more_pods_is_rejected_and_one_without_label_for_its_own_reason() -> None:
    racks = topology("a", None, "b", "c")
    limit = DomainLimit(racks, tally(0, 1, 2), least=1, most=1, bits=5, unlabelled=6)
    assert reject_rows([limit], slice(0, 4), 4).tolist() == [5, 6, 0, 5]
    assert reject_rows([DomainLimit(racks, tally(-3, 9, 0))], slice(0, 4), 4).tolist() == [0] * 4


def test_first_limit_that_a_node_does_not_keep_is_the_reason() -> None:
    racks = topology("a", "b", "c")
    limits = [DomainLimit(racks, tally(0, 1, 0), most=0, bits=4), DomainLimit(racks, tally(1, 1, 0), most=0, bits=2)]
    assert reject_rows(limits, np.array([2, 1, 0]), 3).tolist() == [0, 4, 2]
    assert reject_rows([], np.array([2, 1]), 2).tolist() == [0, 0]
