"""Whole runs with devices over an API that faults befall: nothing is given twice or left; planted faults show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from kframework.client.kube_cluster import KubeCluster
from kframework.framework.suspendable import Suspendable
from kframework.in_memory import claim_controller
from kframework.in_memory.claim_controller import ClaimController
from kframework.objects import AllocationResult, ApiObject, ResourceClaim
from kframework.objects import ResourceClaimConsumerReference as Reference
from kframework.observe.recording.replay import replay
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.allocator import DeviceSearch
from kframework.plugins.dynamic_resources.capacities import Amounts, consumed_amounts
from kframework.plugins.dynamic_resources.cycle import ClaimsInCycle
from kframework.plugins.dynamic_resources.feasibility import Feasibility
from kframework.plugins.dynamic_resources.requests import RequestOption
from kframework.plugins.dynamic_resources.reservation import ClaimReservation
from kframework.plugins.dynamic_resources.slices import PoolDevice
from kframework.plugins.dynamic_resources.writes import ClaimWrites
from kframework.state.nodes import NodeTable
from tests.faults.pod_run import PLUGINS, Report, run
from tests.faults.run_settings import RATES, RunSettings
from tests.support.faulty_transport import Rates
from tests.support.scale import sampled

pytestmark = pytest.mark.slow

T = TypeVar("T", bound=ApiObject)


def replays(report: Report) -> bool:
    """Whether all is decided again as it was, though a replay writes nothing and hears no answers."""
    return all(replay(recording, PLUGINS).difference is None for recording in report.recordings)


@pytest.mark.parametrize("seed", sampled([0, 1, 3, 4, 15, 17, 18], 7))
def test_device_invariants_hold_under_api_faults(seed: int, tmp_path: Path) -> None:
    report = run(seed, RunSettings(devices=True, rates=RATES), tmp_path)
    assert not report.problems, str(report)
    assert report.faults.total() > 10 and report.bindings > 40
    assert replays(report)


@pytest.mark.parametrize("seed", sampled([23, 38]))
def test_device_invariants_hold_for_competing_pods(seed: int, tmp_path: Path) -> None:
    report = run(seed, RunSettings(devices=True, pause=3.0, pods=60), tmp_path)
    assert not report.problems, str(report)
    assert replays(report)


@pytest.mark.long
@pytest.mark.parametrize("seed", [26])
def test_device_invariants_hold_across_scheduler_restarts(seed: int, tmp_path: Path) -> None:
    shape = RunSettings(devices=True, lifetime=100.0, budgets=True, plugin_errors=True, standstills=True)
    report = run(seed, shape, tmp_path)
    assert not report.problems, str(report)
    assert replays(report)


@pytest.mark.parametrize("seed", range(3))
def test_device_invariants_hold_without_faults(seed: int, tmp_path: Path) -> None:
    report = run(seed, RunSettings(devices=True, rates=Rates()), tmp_path)
    assert not report.problems, str(report)


def not_noted(self: AllocatedDevices, claim: ResourceClaim, group_state: object) -> None:
    return None


def kept(self: ClaimReservation) -> list[ResourceClaim]:
    return []


def without_counters(self: DeviceSearch, device: object) -> bool:
    return True


def without_capacity(self: DeviceSearch, asked: RequestOption, device: PoolDevice) -> Amounts | None:
    return consumed_amounts(device.object.capacity, device.requested_amounts(asked.capacity))


def never_freed(self: AllocatedDevices, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
    if new is not None and new.status.allocation is not None:
        take_notice(self, old, new)


def for_the_first_alone(
    self: ClaimWrites, claim: ResourceClaim, allocation: AllocationResult | None, consumer: Reference
) -> Suspendable[ResourceClaim]:
    return claim if allocation is None else (yield from reserve(self, claim, allocation, consumer))


def usable_anywhere(self: ClaimsInCycle, claim: ResourceClaim, nodes: NodeTable, rows: NDArray[np.int64]) -> object:
    return np.ones(len(rows), dtype=np.bool_)


def leaking(claim: ResourceClaim) -> None:
    return None


def still_using(self: ClaimController, namespace: str, pod_name: str, uid: str) -> bool:
    return True


def keeping(self: ClaimController, claim: ResourceClaim, users: tuple[Reference, ...]) -> ResourceClaim:
    return self._cluster.replace(replace(claim, status=replace(claim.status, reserved_for=users)))


def searched_once(self: Feasibility, scope: int) -> None:
    if scope not in self.__dict__.setdefault("searched", set()):
        self.__dict__["searched"].add(scope)
        search(self, scope)
    else:
        self._answers[scope] = 1


async def left_reserved(self: ClaimWrites, claim: ResourceClaim, uid: str) -> None:
    return None


search = Feasibility._search
take_notice = AllocatedDevices._on_change
reserve = ClaimWrites._reserve


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "name", "planted", "problem"),
    sampled(
        [
            (AllocatedDevices, "reserve", not_noted, "times as a whole"),
            (ClaimReservation, "undo", kept, "allocations are pending"),
            (DeviceSearch, "_counters_suffice", without_counters, "is taken"),
            (DeviceSearch, "_amounts", without_capacity, "too much is consumed"),
            (AllocatedDevices, "_on_change", never_freed, "is free, which the scheduler does not know"),
            (ClaimWrites, "_reserve", for_the_first_alone, "is not reserved for it"),
            (ClaimsInCycle, "_is_usable_on", usable_anywhere, "does not reach the devices"),
            (claim_controller, "_owner", leaking, "outlives its pod"),
            (ClaimController, "_needs_claims", still_using, "which is gone"),
            (ClaimController, "_set_consumers", keeping, "keeps the devices of"),
            (ClaimWrites, "unreserve", left_reserved, "which waits"),
            (Feasibility, "_search", searched_once, "waits for devices that nobody has"),
        ]
    ),
)
def test_planted_fault_is_detected(
    owner: type,
    name: str,
    planted: Callable[..., object],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(owner, name, planted)
    shape = RunSettings(devices=True, rates=Rates(), pause=3.0, pods=60)
    assert any(problem in "\n".join(run(seed, shape, tmp_path).problems) for seed in range(3)), "nobody noticed"


async def whatever_it_has_become(
    self: KubeCluster, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "", **stated: str
) -> T:
    return await patch_status(self, kind, name, patch, namespace, uid=stated["uid"])


patch_status = KubeCluster.patch_status


@pytest.mark.long
def test_overwritten_claim_status_is_detected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rates = replace(RATES, delayed=0.1, unanswered=0.08)  # late and repeated writes, which few seeds have
    shape = RunSettings(devices=True, pause=3.0, pods=60, rates=rates)
    assert not run(8, shape, tmp_path).problems
    monkeypatch.setattr(KubeCluster, "patch_status", whatever_it_has_become)
    report = run(8, shape, tmp_path)
    assert any("is bound without devices" in problem for problem in report.problems), "nobody noticed"
