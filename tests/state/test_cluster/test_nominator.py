"""The nominator: one nomination a pod, and whom a pod must make room for."""

from __future__ import annotations

import pytest

from kframework.state.cluster import Nominator
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from tests.support.objects import pod


def nominated(**priorities: int) -> tuple[Nominator, dict[str, PodInfo]]:
    """Nominate pods of these priorities to the node that their first letter names."""
    nominator, interned = Nominator(), TemplateInterner()
    pods = {uid: PodInfo(pod(uid, priority=priority), interned) for uid, priority in priorities.items()}
    for uid, info in pods.items():
        nominator.nominate(info, uid[0])
    return nominator, pods


def test_pod_has_one_nomination() -> None:
    nominator, pods = nominated(a1=0)
    nominator.nominate(pods["a1"], "b")
    assert nominator.nominated_node("a1") == "b"
    assert len(nominator) == 1


@pytest.mark.parametrize("how", ["remove", "put"])
def test_nomination_is_taken_back(how: str) -> None:
    nominator, pods = nominated(a1=0)
    if how == "remove":
        nominator.remove("a1")
    else:
        nominator.nominate(pods["a1"], "")
    nominator.remove("a1")
    assert nominator.nominated_node("a1") == ""
    assert (len(nominator), len(nominator.node_names)) == (0, 0)


@pytest.mark.parametrize(
    ("priority", "rivals"),
    [
        (0, {"a": ["a1", "a2"], "b": ["b1"]}),
        (5, {"a": ["a1", "a2"]}),
        (6, {"a": ["a2"]}),
        (9, {"a": ["a2"]}),
        (10, {}),
    ],
)
def test_rivals_are_at_least_as_important(priority: int, rivals: dict[str, list[str]]) -> None:
    nominator, _ = nominated(a1=5, a2=9, b1=0)
    incoming = PodInfo(pod("c", priority=priority), TemplateInterner())
    found = {name: nominator.nominated_pods_for_node(incoming, name) for name in nominator.node_names}
    assert {name: [info.uid for info in infos] for name, infos in found.items() if infos} == rivals


def test_pod_is_not_its_own_rival() -> None:
    nominator, _ = nominated(a1=5, b1=5)
    newer = PodInfo(pod("a1", priority=5), TemplateInterner())
    assert [name for name in nominator.node_names if nominator.nominated_pods_for_node(newer, name)] == ["b"]
