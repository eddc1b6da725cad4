"""Google's events: instances that wait, run, end and run again, and machines that are removed and added."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kframework import InputError
from kframework.simulation.cluster_traces.borg import read_borg
from kframework.simulation.cluster_traces.cluster import TraceNode, TracePod

ADD, REMOVE, UPDATE = 1, 2, 3
SUBMIT, QUEUE, ENABLE, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING = range(11)
AFTER_THE_END = 2**63 - 1
SECOND = 1_000_000

Machine = tuple[float, int, int, object, object]
Instance = tuple[float, int, int]


def records(tmp_path: Path, machines: str, instances: str) -> list[TraceNode | TracePod]:
    (tmp_path / "machines.csv").write_text(f"time,machine_id,type,cpus,memory\n{machines}")
    header = "time,type,collection_id,instance_index,priority,alloc_collection_id,cpus,memory"
    (tmp_path / "instances.csv").write_text(f"{header}\n{instances}")
    return [*read_borg(str(tmp_path / "machines.csv"), str(tmp_path / "instances.csv"))]


def nodes(tmp_path: Path, *events: Machine) -> list[TraceNode | TracePod]:
    return records(
        tmp_path, "".join(f"{round(time * SECOND)},{','.join(map(str, rest))}\n" for time, *rest in events), ""
    )


def pods(tmp_path: Path, *events: Instance, alloc: str = "0") -> list[tuple[str, float, float, float]]:
    """Return the pods of an instance with these seconds and types of events: name, arrival, start and end."""
    rows = "".join(f"{round(time * SECOND)},{kind},7,{index},200,{alloc},0.25,0.5\n" for time, kind, index in events)
    found = records(tmp_path, "", rows)
    assert all(isinstance(each, TracePod) for each in found)
    return [(pod.name, pod.arrival, pod.start, pod.end) for pod in found if isinstance(pod, TracePod)]


def test_machines_have_the_most_they_ever_had_and_their_periods_without(tmp_path: Path) -> None:
    assert nodes(
        tmp_path,
        (0, 1, ADD, 0.25, 0.5),
        (0, 2, ADD, "", ""),
        (10, 1, REMOVE, "", ""),
        (20, 1, ADD, 0.25, 0.5),
        (25, 3, ADD, 1.0, 1.0),
        (30, 1, UPDATE, 0.5, 0.25),
        (40, 1, REMOVE, "", ""),
        (AFTER_THE_END / SECOND, 1, ADD, 1, 1),
    ) == [
        TraceNode("machine-1", "50000m", str(1 << 39), down=[(10, 20), (40, math.inf)]),
        TraceNode("machine-3", "100000m", str(1 << 40), arrival=25, down=[]),
    ]


def test_amounts_are_fractions_of_the_largest_machine(tmp_path: Path) -> None:
    (pod,) = records(tmp_path, "", "5000000,0,7,3,200,,0.000001,0.5\n5000000,3,7,3,200,0,0.000001,0.5\n")
    assert pod == TracePod("7-3-5000000", "1m", str(1 << 39), 5, 5, math.inf, priority=200)


@pytest.mark.parametrize("end", [EVICT, FAIL, FINISH, KILL, LOST])
def test_instance_waits_runs_and_ends(tmp_path: Path, end: int) -> None:
    events = (1, SUBMIT, 0), (2, QUEUE, 0), (3, ENABLE, 0), (4, SCHEDULE, 0), (5, UPDATE_RUNNING, 0), (9, end, 0)
    assert pods(tmp_path, *events) == [("7-0-1000000", 1, 4, 9)]


def test_instance_that_is_submitted_again_becomes_another_pod(tmp_path: Path) -> None:
    events = (0, SCHEDULE, 0), (1, SUBMIT, 1), (2, EVICT, 0), (2, SUBMIT, 0), (3, SCHEDULE, 0), (8, FINISH, 0)
    assert pods(tmp_path, *events) == [
        ("7-0-0", 0, 0, 2),
        ("7-0-2000000", 2, 3, 8),
        ("7-1-1000000", 1, 1, math.inf),
    ]


def test_request_may_change_until_the_instance_runs(tmp_path: Path) -> None:
    rows = [(1, SUBMIT, 0.1), (2, UPDATE_PENDING, 0.2), (3, SCHEDULE, 0.3), (4, UPDATE_RUNNING, 0.4), (5, FINISH, 0.5)]
    text = "".join(f"{time},{kind},7,0,200,0,{cpus},0.1\n" for time, kind, cpus in rows)
    assert [pod.cpu for pod in records(tmp_path, "", text)] == ["30000m"]


def test_tasks_in_an_alloc_instance_and_ends_without_a_beginning_are_left_out(tmp_path: Path) -> None:
    assert not pods(tmp_path, (1, SUBMIT, 0), (2, SCHEDULE, 0), alloc="123")
    assert not pods(tmp_path, (1, FINISH, 0), (AFTER_THE_END / SECOND, SUBMIT, 1))


def test_rows_must_be_in_the_order_of_time(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"instances\.csv:3: time goes back from 2000000 to 1000000: sort the rows"):
        pods(tmp_path, (2, SUBMIT, 0), (1, SCHEDULE, 0))
    with pytest.raises(InputError, match=r"machines\.csv:2: time is 'now', not a number from 0 on"):
        records(tmp_path, "now,1,1,1,1\n", "")
