"""The slow cycle finds what the fast one remembered wrongly, and says which pod, which node and what."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from kframework.core.cycle.oracle import Oracle, VerificationError, verify
from kframework.core.cycle.search import Search
from kframework.objects import Node
from kframework.testing import make_node, make_pod
from kframework.values.status import unschedulable
from tests.core.cycle.test_search import Likes, Narrows, Remembers, Says, Stretches, broken, on
from tests.support.searches import SearchFixture
from tests.support.searches import build_profile as profile

no = unschedulable("no")


def nodes(number: int) -> Iterable[Node]:
    return (make_node(f"n{n}", labels={"score": str(n)}) for n in range(number))


def three() -> SearchFixture:
    """Three nodes, the first one rejected, with raw and normalised scores."""
    return SearchFixture(profile(Remembers("A", on("n0", no)), Likes, Stretches), nodes(3))


def verified(searching: SearchFixture, spoil: Callable[[Search], object] = lambda search: None) -> None:
    """Search, spoil what was remembered before a second search, and verify that one."""
    searching.run(make_pod())
    search = searching.search(make_pod())
    spoil(search)
    verify(search, search.run())


def test_right_cache_passes() -> None:
    verified(three())


def spoil_rejection(search: Search) -> None:
    assert search.plan.cache is not None
    search.plan.cache.rejections.cells[1] = search.plan.cache.rejections.cells[0]


def spoil_words(search: Search) -> None:
    assert search.plan.cache is not None
    search.plan.cache.table.statuses[0] = unschedulable("yes")


def spoil_total(search: Search) -> None:
    assert search.plan.cache is not None and search.plan.cache.below is not None
    search.plan.cache.totals.cells[1] += 1
    search.plan.cache.below.totals.cells[1] += 1


def spoil_raw(search: Search) -> None:
    assert search.plan.cache is not None
    search.plan.cache.raw_of("Stretches").cells[1] += 1


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_rejection, "pod default/pod: node n1: cached Status("),
        (spoil_words, "pod default/pod: node n0: cached Status(code=<Code.UNSCHEDULABLE: 2>, reasons=('yes',)"),
        (spoil_total, "pod default/pod: totals: cached {1: 2, 2: 102}, uncached {1: 1, 2: 102}"),
        (spoil_raw, "pod default/pod: totals: cached {1: 1, 2: 2}, uncached {1: 1, 2: 102}"),
    ],
)
def test_wrong_cache_is_found(spoil: Callable[[Search], None], said: str) -> None:
    with pytest.raises(VerificationError) as caught:
        verified(three(), spoil)
    assert said in str(caught.value)


def test_search_that_looked_at_some_of_the_nodes_passes() -> None:
    verified(SearchFixture(profile(Remembers("A", on("n0", no))), nodes(9)))


def test_pod_that_fits_nowhere_passes() -> None:
    verified(SearchFixture(profile(Says("A", on("n0", no)), Narrows("n0"), Likes), nodes(9)))


def test_plugin_asked_along_the_way_need_not_say_why_as_long_as_some_node_passes() -> None:
    verified(SearchFixture(profile(Says("A", on("n0", no)), Remembers("B", on("n0", no)), Likes), nodes(3)))


def test_feasible_node_that_was_missed_is_found() -> None:
    searching = three()
    search = searching.search(make_pod())
    outcome = search.run()
    search.candidates = np.array([1])
    with pytest.raises(VerificationError, match=r"candidates: cached \[1\], uncached \[1, 2\]"):
        verify(search, outcome)


def test_fault_that_the_search_did_not_tell_of_is_found(caplog: pytest.LogCaptureFixture) -> None:
    searching = SearchFixture(profile(Likes), nodes(3))
    search = searching.search(make_pod())
    outcome = search.run()
    searching.cluster.put_node(make_node("n1", labels={"score": "none"}))
    with caplog.at_level(logging.CRITICAL), pytest.raises(VerificationError, match=r"totals: .* hook score"):
        verify(search, outcome)


def test_failed_attempt_and_one_that_took_its_nominated_node_have_nothing_to_verify() -> None:
    verified(SearchFixture(profile(Remembers("A", broken("n0"))), [make_node("n0")]))
    searching = three()
    search = searching.search(make_pod(nominated_node_name="n2"))
    verify(search, search.run())


def test_verifying_changes_nothing() -> None:
    searching = SearchFixture(profile(Says("A", on("n0", no)), Likes), nodes(120))
    searching.cluster.nominator.nominate(searching.pending(make_pod("rival")), "n1")
    search = searching.search(make_pod())
    outcome = search.run()
    after, drawn, logged = searching.rotation.next_start_index, searching.random.getstate(), searching.nodes.pod_log.end
    verify(search, outcome)
    assert (searching.rotation.next_start_index, searching.random.getstate(), searching.nodes.pod_log.end) == (
        after,
        drawn,
        logged,
    )
    assert not searching.cluster.statements


def test_rows_are_listed_from_any_place_in_the_order() -> None:
    searching = SearchFixture(profile(Narrows("n0", "n2", "n3")), nodes(4))
    afresh = Oracle(searching.cluster, searching.profile, searching.pending(make_pod()))
    assert [afresh.rows(start) for start in (0, 1, 4)] == [[0, 2, 3], [2, 3, 0], [2, 3, 0]]


def test_pod_narrowed_to_no_node_at_all_has_no_rows() -> None:
    searching = SearchFixture(profile(Narrows("elsewhere")), nodes(4))
    afresh = Oracle(searching.cluster, searching.profile, searching.pending(make_pod()))
    assert afresh.rows(3) == []


def test_totals_are_weighted_sums_of_normalised_scores() -> None:
    searching = SearchFixture(profile(Likes, Stretches, weights={"Likes": 3}), nodes(3))
    afresh = Oracle(searching.cluster, searching.profile, searching.pending(make_pod()))
    assert afresh.totals([1, 2]) == {1: 3, 2: 106}
    assert np.array_equal(searching.nodes.order, [0, 1, 2])
