"""Random worlds whose sources and services fail in every way: no pod is lost, none waits longer than it must, no fault
goes without blame; and the run replays without asking anybody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kframework.core.pod_engine import PodEngine
from kframework.core.sources import Sources, SourceUpdate
from kframework.observe.recording import file as recording_file
from kframework.observe.recording.file import RecordingFile
from kframework.observe.recording.reconsider import reconsider
from kframework.observe.recording.replay import replay
from kframework.scheduler import binding, sources
from kframework.scheduler.sources import SourceFeed
from kframework.scheduler.timeouts import with_timeout
from tests.faults.source_run import Report, make_plugins, run
from tests.support.scale import seeds


@pytest.fixture(autouse=True)
def _few_values_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a nonsensical answer be one that has too many values, without the time that it would take to make them."""
    monkeypatch.setattr(sources, "MAX_VALUES", 50)


@pytest.mark.parametrize("seed", seeds())
def test_invariants_hold_under_source_faults(seed: int, tmp_path: Path) -> None:
    report = run(seed, tmp_path)
    assert not report.problems, str(report)
    assert report.occurred and report.bound + report.waiting
    world = make_plugins(seed)
    for recording in report.recordings:
        replayed = replay(recording, world.registry)
        assert replayed.difference is None, str(replayed.difference)
        assert not reconsider(recording, registry=world.registry).differences
    assert not world.ledger.fetches, "a replay asks no source"


@pytest.mark.parametrize("seed", seeds(5, step=5))
def test_run_is_reproducible_by_seed(seed: int, tmp_path: Path) -> None:
    assert run(seed, tmp_path).history == run(seed, tmp_path).history


@pytest.mark.parametrize("seed", seeds(3, start=2, step=10))
def test_recording_part_starts_with_the_known_source_data(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = count()
    monkeypatch.setattr(RecordingFile, "is_full", property(lambda self: next(steps) % 50 == 49))
    monkeypatch.setattr(recording_file, "MAX_PARTS", 1000)
    run(seed, tmp_path)
    parts = sorted(tmp_path.iterdir())
    assert len(parts) > 2
    for part in parts:
        assert not reconsider(part, registry=make_plugins(seed).registry).differences, part


# -- planted faults are found ------------------------------------------------------------------------------------------


def deaf(self: Sources, message: Any) -> SourceUpdate | None:
    apply(self, message)
    return None


def never_woken(self: PodEngine, turn: SourceUpdate) -> None:
    self._plan_caches[turn.source.profile].clear()


def silent(self: SourceFeed, error: Exception) -> None:
    self._failures += 1


async def never_over(seconds: float, work: Awaitable[Any], option: str) -> Any:
    return await with_timeout(None, work, option)


def never_undone(*arguments: object) -> None:
    return None


apply = Sources.apply


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "name", "planted", "problem"),
    [
        (Sources, "apply", deaf, "waits, but"),
        (PodEngine, "on_source_update", never_woken, "waits, but"),
        (SourceFeed, "_fail", silent, "was reported 0 times"),
        (sources, "with_timeout", never_over, "waits, but"),
        (binding, "with_timeout", never_over, "is assumed and neither confirmed nor forgotten"),
        ("kframework.core.pod_outcomes", "run_unreserve", never_undone, "holds what it has reserved"),
    ],
)
def test_planted_fault_is_detected(
    owner: Any,
    name: str,
    planted: Callable[..., object],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(*(f"{owner}.{name}", planted) if isinstance(owner, str) else (owner, name, planted))
    reports: list[Report] = []
    for seed in range(12):
        reports.append(run(seed, tmp_path))
        if problem in str(reports[-1]):
            return
    raise AssertionError(f"nobody noticed: {[*map(str, reports)]}")
