"""All implementations of Cluster have the signatures of the Protocol."""

from __future__ import annotations

import inspect

import pytest

from kframework.client.cluster import Cluster
from kframework.client.dry_run import DryRunCluster
from kframework.client.kube_cluster import KubeCluster
from kframework.in_memory.cluster import MemoryCluster

VERBS = [name for name, member in vars(Cluster).items() if inspect.isfunction(member) and not name.startswith("_")]


@pytest.mark.parametrize("sibling", [MemoryCluster, KubeCluster, DryRunCluster])
@pytest.mark.parametrize("verb", VERBS)
def test_implementation_has_the_protocols_signatures(sibling: type, verb: str) -> None:
    asked, given = (inspect.signature(getattr(owner, verb)).parameters for owner in (Cluster, sibling))
    assert [(each.name, each.kind, each.default) for each in asked.values()] == [
        (each.name, each.kind, each.default) for each in given.values()
    ]
    awaited = inspect.signature(getattr(sibling, verb)).return_annotation.startswith(("Awaitable[", "Call["))
    assert awaited or inspect.iscoroutinefunction(getattr(sibling, verb)), "whoever asks may await the answer"


def test_protocol_has_all_verbs() -> None:
    assert {"watch", "bind", "delete"} <= set(VERBS)
