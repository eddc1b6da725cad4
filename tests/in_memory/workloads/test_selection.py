"""Controllers are chosen in the words of kube-controller-manager's flag."""

from __future__ import annotations

import asyncio

import pytest

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.errors import ConfigError
from kframework.fake_api.local_cluster import ALL_CONTROLLERS
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.workloads.selection import CONTROLLERS, create_controllers


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@pytest.mark.parametrize(
    ("names", "absent"),
    [
        (["*"], set()),
        (["*", "-deployment"], {"DeploymentController"}),
        (["-replicaset-controller", "*"], {"ReplicaSetController"}),
        (["*", "-job"], {"JobController", "OrphanedJobPodController"}),
        (["*", "-ttl-after-finished-controller"], {"TtlAfterFinishedController"}),
        (["*", "-endpoints"], {"EndpointsController"}),
    ],
)
async def test_disabled_controllers_do_not_run(names: list[str], absent: set[str]) -> None:
    every = {controller.__name__ for classes in ALL_CONTROLLERS.values() for controller in classes}
    assert chosen(names) == every - absent


@pytest.mark.parametrize(
    ("names", "present"), [(["deployment"], {"DeploymentController"}), ([], set()), (["-job"], set())]
)
async def test_only_named_controllers_run_without_a_star(names: list[str], present: set[str]) -> None:
    assert chosen(names) == present


def chosen(names: list[str]) -> set[str]:
    clock = LoopClock(asyncio.get_running_loop())
    return {type(each).__name__ for each in create_controllers(names, MemoryCluster(clock), clock, ALL_CONTROLLERS)}


async def test_simulation_accepts_controllers_of_the_fake_api() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    assert list(create_controllers(["endpoints", "serviceaccount"], MemoryCluster(clock), clock)) == []
    assert list(CONTROLLERS) == list(ALL_CONTROLLERS)


async def test_unknown_controller_is_an_error() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    with pytest.raises(ConfigError, match='unknown controller "deploy"; known are deployment-controller, '):
        list(create_controllers(["*", "-deploy"], MemoryCluster(clock), clock))
