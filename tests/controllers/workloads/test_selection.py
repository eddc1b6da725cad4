"""Controllers are chosen in the words of kube-controller-manager's flag."""

from __future__ import annotations

import asyncio

import pytest

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.cluster.memory import MemoryCluster
from kframework.controllers.workloads.selection import selected
from kframework.errors import ConfigError


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["*"], ["DeploymentController", "ReplicaSetController"]),
        (["*", "-deployment"], ["ReplicaSetController"]),
        (["-replicaset-controller", "*"], ["DeploymentController"]),
        (["deployment"], ["DeploymentController"]),
        ([], []),
    ],
)
async def test_who_is_named_runs(names: list[str], chosen: list[str]) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    assert [type(each).__name__ for each in selected(names, MemoryCluster(clock), clock)] == chosen


async def test_nobody_is_called_what_is_not_known() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    with pytest.raises(ConfigError, match='"deploy" is none of deployment-controller, replicaset-controller'):
        list(selected(["*", "-deploy"], MemoryCluster(clock), clock))
