"""A rejection is one integer; the smallest is the first in configured order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.core.cycle.rejections import (
    ATTEMPT,
    FIRST,
    LOWER,
    PASS,
    PLUGIN,
    UNREACHED,
    UPPER,
    StatusTable,
    decode_status,
    plugin_order,
    plugin_rejection,
    reason_bits,
)
from kframework.framework.cycle_state import CycleState
from kframework.framework.plugin import Plugin, hookimpl
from kframework.state.nodes import NodeTable
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import make_pod
from kframework.values.scores import Rows, Scores
from kframework.values.status import Status, error, unresolvable, unschedulable
from tests.support.searches import build_profile

orders = st.integers(0, 10_000)
bits = st.integers(1, 2**32 - 1)


def source_of(rejection: int) -> int:
    """Return where the bits of a rejection come from: the plugin, or a table."""
    return rejection >> 32 & 7


@given(order=orders, bits=bits)
def test_plugins_own_bits_can_be_read_back(order: int, bits: int) -> None:
    rejection = plugin_rejection(order) | bits
    assert (plugin_order(rejection), source_of(rejection), reason_bits(rejection)) == (order, PLUGIN, bits)


@given(order=st.integers(FIRST, 10_000), source=st.sampled_from([LOWER, UPPER, ATTEMPT]), before=st.integers(0, 50))
def test_status_can_be_read_back(order: int, source: int, before: int) -> None:
    table = StatusTable(source)
    for number in range(before):
        table.encode(0, unschedulable(f"other {number}"))
    rejection = table.encode(order, unschedulable("mine"))
    assert (plugin_order(rejection), source_of(rejection)) == (order, source)
    assert table.statuses[reason_bits(rejection)] == unschedulable("mine")
    assert len(table) == before + 1
    assert table.encode(order, unschedulable("mine")) == rejection  # equal Statuses share a place
    assert len(table) == before + 1


@given(
    smaller=st.integers(0, 100),
    larger=st.integers(101, 10_000),
    one=st.sampled_from([PLUGIN, LOWER, UPPER, ATTEMPT]),
    other=st.sampled_from([PLUGIN, LOWER, UPPER, ATTEMPT]),
    bits=bits,
)
def test_earlier_plugin_is_the_smaller_number(smaller: int, larger: int, one: int, other: int, bits: int) -> None:
    early = plugin_rejection(smaller) | one << 32 | bits
    late = plugin_rejection(larger) | other << 32 | 1
    assert early < late < UNREACHED < PASS


def test_all_is_exact_in_int64() -> None:
    assert PASS == 2**63 - 1
    assert plugin_order(PASS) > 10_000
    first = StatusTable(ATTEMPT).encode(FIRST, unschedulable())
    assert all(a < b for a, b in pairwise([first, plugin_rejection(0), plugin_rejection(1), UNREACHED, PASS]))


def test_words_come_from_the_table_that_is_meant_or_from_the_plugin() -> None:
    class Tells(Plugin):
        name = "Tells"

        @hookimpl
        def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
            return np.zeros(len(np.arange(nodes.capacity)[rows]), dtype=np.int64)

        @hookimpl
        def filter_status(self, pod: PendingPod, bits: int) -> Status:
            return unschedulable(f"bits {bits} of {pod.name}")

    filters = build_profile(Tells).filters
    pod = PendingPod(make_pod("p"), TemplateInterner())
    tables = (StatusTable(ATTEMPT), StatusTable(LOWER))
    rejections = [table.encode(3, unschedulable(f"table {table.source}")) for table in tables]
    said = [
        decode_status(rejection, tables, filters, pod).message for rejection in [*rejections, plugin_rejection(0) | 5]
    ]
    assert said == [f"table {ATTEMPT}", f"table {LOWER}", "bits 5 of p"]


@pytest.mark.parametrize(("status", "faults"), [(unschedulable("a"), 0), (unresolvable("a"), 0), (error("a"), 1)])
def test_status_that_is_no_rejection_counts_as_a_fault(status: object, faults: int) -> None:
    table = StatusTable(ATTEMPT)
    table.encode(0, status)  # type: ignore[arg-type]  # a Status, from the table above
    assert table.faults == faults
    table.clear()
    assert (len(table), table.faults) == (0, 0)
