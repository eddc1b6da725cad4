"""Metrics and recording report the same waiting times of tasks and jobs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec
import pytest
from kframework_batch.account import SessionAccount
from msgspec.structs import replace

from kframework import Code
from kframework.clock import VIRTUAL_EPOCH, seconds_of
from kframework.engine import Binding, Decision
from kframework.observe.recording.reader import RecordingReader
from tests.support.batch_runs import Lie, RecordedRun, crowded, waiting

TASKS = "volcano_task_scheduling_latency_milliseconds"
JOBS = "volcano_e2e_job_scheduling_latency_milliseconds"
DURATION = "volcano_e2e_job_scheduling_duration"
LAST = "volcano_e2e_job_scheduling_last_time"

#: The same but for the microseconds that a step of a binding cycle takes here, which virtual time has not.
near = partial(pytest.approx, rel=0.0, abs=0.9)


def told(file: Path) -> dict[str, float]:
    """Work out of a recording alone what metrics of latencies come to."""
    recorded = RecordingReader(file)
    new, created, waited = list[str](), dict[str, float](), defaultdict[str, list[float]](list)
    placed = dict[str, tuple[str, float]]()  # by pod group: its queue, and when it last got a place
    for line in recorded:
        match line.what:
            case "Upserted" | "Deleted":
                obj = msgspec.json.decode(line.body)
                key = obj["metadata"]["uid" if obj["kind"] == "Pod" else "name"]
                if obj["kind"] == "Pod" and key not in created:
                    new.append(key)
                if obj["kind"] in ("Pod", "PodGroup"):
                    created[key] = seconds_of(obj["metadata"]["creationTimestamp"])
                if line.what == "Deleted":
                    placed.pop(key, None)
            case "Step":
                waited["Watched"] += [line.at - created[uid] for uid in new]
                new.clear()
            case "Decision" if (decision := recorded.read(line.body, Decision)).node:
                waited["Assumed"].append(decision.popped_at - created[decision.uid])
            case "Binding" if (binding := recorded.read(line.body, Binding)).code is Code.SUCCESS:
                waited["Bound"].append(binding.ended_at - created[binding.uid])
            case "SessionAccount":
                for turn in recorded.read(line.body, SessionAccount).turns:
                    places, name = sum(bool(verdict.node) for verdict in turn.verdicts), turn.job.partition("/")[2]
                    if places and turn.action in ("allocate", "backfill"):
                        waited["job"] += [turn.at - created[name]] * places
                        placed[name] = turn.queue, turn.at
    return sums(waited) | gauges({name: (queue, at, at - created[name]) for name, (queue, at) in placed.items()})


def sums(waited: Mapping[str, list[float]]) -> dict[str, float]:
    said = dict[str, float]()
    for kind in ("Watched", "Assumed", "Bound", "job"):
        name, labels = (JOBS, "") if kind == "job" else (TASKS, f'{{stage="{kind}"}}')
        said |= {f"{name}_count{labels}": len(waited[kind]), f"{name}_sum{labels}": sum(waited[kind]) * 1e3}
    return said


def gauges(placed: Mapping[str, tuple[str, float, float]]) -> dict[str, float]:
    said = dict[str, float]()
    for name, (queue, at, waited) in placed.items():
        labels = f'{{job_name="{name}",queue="{queue}",job_namespace="default"}}'
        said |= {DURATION + labels: waited * 1e3, LAST + labels: at}
    return said


def counted(run: RecordedRun) -> dict[str, float]:
    left_out = re.compile("_bucket|PreBound")
    return {name: value for name, value in run.latencies.items() if not left_out.search(name)}


@pytest.mark.parametrize("make", [waiting, crowded])
def test_all_records_have_the_same_latencies(make: Callable[[Path], RecordedRun], tmp_path: Path) -> None:
    run = make(tmp_path / "run.rec")
    assert counted(run) == near(told(run.file))


def test_compared_latencies_are_not_empty(tmp_path: Path) -> None:
    said = told(crowded(tmp_path / "run.rec").file)
    assert [name for name in said if name.startswith(LAST)] != []
    assert said[f"{JOBS}_count"] == 8 and said[f'{TASKS}_sum{{stage="Bound"}}'] > 0


def of_turns(**changes: object) -> Lie:
    """Lie about each turn."""

    def lie(record: msgspec.Struct) -> msgspec.Struct:
        if not isinstance(record, SessionAccount):
            return record
        return replace(record, turns=tuple(replace(turn, **changes) for turn in record.turns))

    return lie


def decided_later(record: msgspec.Struct) -> msgspec.Struct:
    return replace(record, popped_at=record.popped_at + 1.0) if isinstance(record, Decision) else record


def bound_later(record: msgspec.Struct) -> msgspec.Struct:
    return replace(record, ended_at=record.ended_at + 1.0) if isinstance(record, Binding) else record


def not_bound(record: msgspec.Struct) -> msgspec.Struct:
    return replace(record, code=Code.ERROR) if isinstance(record, Binding) else record


BOUND = '{stage="Bound"}'


@pytest.mark.parametrize(
    ("lie", "about"),
    [
        (of_turns(at=VIRTUAL_EPOCH + 999.0), {f"{JOBS}_sum", DURATION, LAST}),
        (of_turns(verdicts=()), {f"{JOBS}_count", f"{JOBS}_sum", DURATION, LAST}),
        (of_turns(action="preempt"), {f"{JOBS}_count", f"{JOBS}_sum", DURATION, LAST}),
        (decided_later, {f'{TASKS}_sum{{stage="Assumed"}}'}),
        (bound_later, {f"{TASKS}_sum{BOUND}"}),
        (not_bound, {f"{TASKS}_count{BOUND}", f"{TASKS}_sum{BOUND}"}),
    ],
    ids=["another moment", "no places", "another action", "decided later", "bound later", "not bound"],
)
def test_planted_error_is_found(lie: Lie, about: set[str], tmp_path: Path) -> None:
    run = crowded(tmp_path / "run.rec", lie)
    said, truth = counted(run), told(run.file)
    apart = {name for name, value in truth.items() if said.get(name, -1.0) != near(value)}
    assert {name.partition("{job_name")[0] for name in apart} == about
