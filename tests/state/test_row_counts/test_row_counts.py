from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects import PersistentVolumeClaimSource, Pod, Volume
from kframework.state.cluster import ClusterState
from kframework.state.row_counts import RowCounts
from tests.support.objects import node, pod


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(-2, 2)), max_size=30))
def test_things_are_counted_where_they_occur(history: list[tuple[str, int, int]]) -> None:
    counts, truth = RowCounts[str](), Counter[tuple[str, int]]()
    for key, row, more in history:
        if not more or truth[key, row] + more < 0:
            continue
        truth[key, row] += more
        assert counts.add(key, row, more) == truth[key, row]
        for thing in "ab":
            assert counts.rows(thing) == {row: n for (other, row), n in truth.items() if other == thing and n}
    assert len(counts._rows) == len({key for (key, _), n in truth.items() if n})


def using(uid: str, node_name: str, *claims: str, namespace: str = "default") -> Pod:
    """Make an assigned pod that uses these claims."""
    made = pod(uid, namespace=namespace, node_name=node_name)
    volumes = tuple(
        Volume(name=f"v{place}", persistent_volume_claim=PersistentVolumeClaimSource(claim_name=claim))
        for place, claim in enumerate(claims)
    )
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, volumes=volumes))


def test_claim_is_in_use_where_its_pods_are() -> None:
    state = ClusterState()
    for name in ("a", "b"):
        state.put_node(node(name))
    for made in (using("p", "a", "data", "log"), using("q", "a", "data"), using("r", "b", "data", namespace="other")):
        state.put_pod(made)
    claims = state.nodes.claims
    assert claims.rows(("default", "data")) == {0: 2}
    assert claims.rows(("other", "data")) == {1: 1}
    assert not claims.rows(("other", "log"))
    state.remove_pod("p")
    assert (claims.rows(("default", "data")), len(claims._rows)) == ({0: 1}, 2)


def test_pods_of_one_template_keep_their_own_claims() -> None:
    state = ClusterState()
    state.put_node(node("a"))
    for made in (using("p", "a", "data-0"), using("q", "a", "data-1")):
        state.put_pod(made)
    p, q = state.pods["p"], state.pods["q"]
    assert p.template is q.template
    assert (p.claims, q.claims) == (("data-0",), ("data-1",))


def test_pod_on_a_deleted_node_uses_nothing() -> None:
    state = ClusterState()
    state.put_node(node("a"))
    state.put_pod(using("p", "a", "data"))
    state.remove_node("a")
    assert not state.nodes.claims._rows
    state.put_node(node("a"))
    assert state.nodes.claims.rows(("default", "data")) == {0: 1}
