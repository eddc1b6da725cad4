"""Whole runs over an API that faults befall: what must hold in the end does, and a run in which it does not replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import update_wrapper
from pathlib import Path

import pytest

from kframework.client.reflector import Reflector
from kframework.core.cycle.results import Reservation
from kframework.core.group_binder import GroupBinder
from kframework.core.pod_engine import PodEngine
from kframework.core.queue.group_queue import GroupQueue
from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.framework.answers import GroupProgress
from kframework.objects import PodGroup
from kframework.observe.recording.replay import replay
from kframework.plugins.gang_scheduling import GangScheduling
from kframework.state.cluster import ClusterState
from kframework.values.status import Status
from tests.faults.pod_run import PLUGINS, Report, RunSettings, run
from tests.support.faulty_transport import Rates
from tests.support.scale import seeds

#: A run with groups; their bindings fail, too, and schedulers follow each other.
GROUPS = RunSettings(groups=True, pods=40, lifetime=100.0, plugin_errors=True)
#: The same with little time for gangs to be bound.
LIMITED = RunSettings(groups=True, pods=40, lifetime=100.0, plugin_errors=True, gang_timeout=1)
#: The first without faults of the API, so that no gang is bound in part for a moment.
STRICT = RunSettings(groups=True, pods=40, rates=Rates(), plugin_errors=True)


@pytest.mark.parametrize("seed", seeds(5))
def test_invariants_hold_under_api_faults(seed: int, tmp_path: Path) -> None:
    report = run(seed, RunSettings(), tmp_path)
    assert not report.problems, str(report)
    assert report.faults.total() > 10 and report.bindings > 40


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize(
    "shape", [GROUPS, pytest.param(LIMITED, marks=pytest.mark.slow), STRICT], ids=["faults", "limited", "strict"]
)
def test_invariants_hold_for_groups(seed: int, shape: RunSettings, tmp_path: Path) -> None:
    report = run(seed, shape, tmp_path)
    assert not report.problems, str(report)
    assert report.troubles["pods of groups"]
    for recording in report.recordings:
        assert replay(recording, PLUGINS).difference is None


def test_run_without_fault_rates_has_no_faults(tmp_path: Path) -> None:
    report = run(0, RunSettings(rates=Rates()), tmp_path)
    assert not report.problems, str(report)
    assert not report.faults


# -- planted faults are found ------------------------------------------------------------------------------------------


def hasty(self: PodEngine, reservation: Reservation) -> None:
    start_binding(self, reservation)
    self.cluster.forget(reservation.pod.uid)


start_binding = PodEngine.start_binding


def deaf(self: Reflector, key: tuple[str, str], last: object = None) -> None:  # type: ignore[type-arg]  # of any kind
    self._known.pop(key, None)


def never_forgotten(self: ClusterState, uid: str) -> None:
    return None


def never_done(self: SchedulingQueue, uid: str) -> bool:
    return False


def never_put_back(self: PodEngine, queued: object, status: object, nominated: object) -> None:
    self.queue.done(queued.pod.uid)  # type: ignore[attr-defined]  # a QueuedPod


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "name", "planted", "problem"),
    [
        (PodEngine, "start_binding", hasty, "is overcommitted by"),
        (Reflector, "_delete", deaf, "is not there, but the scheduler has"),
        (ClusterState, "forget", never_forgotten, "is assumed and neither confirmed nor forgotten"),
        (SchedulingQueue, "done", never_done, "was popped and is not done"),
        (PodEngine, "failed", never_put_back, "pod in the queue"),
    ],
)
def test_planted_fault_is_detected_and_its_run_replays(
    owner: type,
    name: str,
    planted: Callable[..., object],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(owner, name, planted)
    report = next((report for report in runs(tmp_path) if problem in str(report)), None)
    assert report is not None, "nobody noticed"
    assert f"seed {report.seed} fails; its inbox is in {report.recording}" in str(report)
    assert replay(report.recording, PLUGINS).difference is None


def alone(self: GroupBinder, root: object, profile: object, outcomes: object) -> None: ...


def lost(self: GroupQueue, key: object, member: object) -> None: ...


def always(self: GangScheduling, group: PodGroup, progress: GroupProgress) -> Status | None:
    return None


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "name", "planted", "problem"),
    [
        (GroupBinder, "add", alone, "which needs"),
        (
            GangScheduling,
            "placement_feasible",
            update_wrapper(always, GangScheduling.placement_feasible),
            "which needs",
        ),
        (GroupQueue, "_put_back_unbound", lost, "pod in the queue"),
    ],
)
def test_fault_planted_into_groups_is_detected(
    owner: type,
    name: str,
    planted: Callable[..., object],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(owner, name, planted)
    assert any(problem in str(run(seed, STRICT, tmp_path)) for seed in range(20))


def runs(folder: Path) -> Iterator[Report]:
    return (run(seed, RunSettings(pause=3.0), folder) for seed in range(5))
