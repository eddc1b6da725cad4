"""The siblings of a real cluster are asked as it is: the Protocol says the same about all."""

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
def test_a_sibling_takes_the_same_arguments(sibling: type, verb: str) -> None:
    asked, given = (inspect.signature(getattr(owner, verb)).parameters for owner in (Cluster, sibling))
    assert [(each.name, each.kind, each.default) for each in asked.values()] == [
        (each.name, each.kind, each.default) for each in given.values()
    ]
    awaited = inspect.signature(getattr(sibling, verb)).return_annotation.startswith("Awaitable[")
    assert awaited or inspect.iscoroutinefunction(getattr(sibling, verb)), "whoever asks may await the answer"


def test_the_verbs_are_found() -> None:
    assert {"watch", "bind", "delete"} <= set(VERBS)
