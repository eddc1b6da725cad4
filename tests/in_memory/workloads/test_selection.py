"""Controllers are chosen in the words of kube-controller-manager's flag."""

from __future__ import annotations

import asyncio

import pytest

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.errors import ConfigError
from kframework.fake_api.local_cluster import ALL_CONTROLLERS
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.workloads.selection import CONTROLLERS, create_controllers
from kframework.objects import Node
from kframework.simulation.controllers import create_workload_controllers
from kframework.testing.builders import make_node


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
        (["*", "-resourceclaim"], {"ClaimController"}),
    ],
)
async def test_disabled_controllers_do_not_run(names: list[str], absent: set[str]) -> None:
    assert chosen(names) == chosen(["*"]) - absent
    assert absent <= chosen(["*"])


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


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("-deploymnt", r'"deploymnt"; did you mean "deployment"\?'),
        ("xyz", '"xyz"; known are resourceclaim, podgroup-protection, deployment, '),
    ],
)
async def test_unknown_controller_is_an_error(name: str, remedy: str) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    with pytest.raises(ConfigError, match=f"unknown controller {remedy}"):
        create_controllers(["*", name], MemoryCluster(clock), clock)


@pytest.mark.parametrize("objects", [[], [make_node("n1")]])
async def test_simulation_without_workloads_checks_the_names_too(objects: list[Node]) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    with pytest.raises(ConfigError, match='unknown controller "xyz"'):
        create_workload_controllers(["xyz"], objects, MemoryCluster(clock, objects), clock)
    assert create_workload_controllers(["job"], objects, MemoryCluster(clock, objects), clock) == ()
