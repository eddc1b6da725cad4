"""When a gang has enough, and what is said of it: rules of whole sessions, one a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest
from kframework_batch.objects import PodGroup
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_task
from msgspec.structs import replace

from kframework.objects import Pod

LATER = "2026-01-01T00:00:00Z"

TIERS = """
tiers:
- plugins: [{name: gang}]
- plugins: [{name: predicates}]
"""


def in_phase(pod: Pod, phase: str) -> Pod:
    return replace(pod, status=replace(pod.status, phase=phase))


def on_node(name: str, phase: str = "Running", *, leaving: bool = False, group: str = "j") -> Pod:
    """Make a pod on the node n1 that takes one CPU."""
    pod = make_task(name, group, node="n1", deletion_timestamp=LATER if leaving else None)
    return in_phase(pod, phase)


def gang(*pods: Pod, minimum: int = 2, phase: str = "Inqueue", roles: Mapping[str, int] | None = None) -> Gang:
    return make_group("j", minimum=minimum, phase=phase, roles=roles), list(pods)


class Rule(NamedTuple):
    """A named rule: the gangs on a node with `cpus` CPUs, and the result of some sessions.

    `said` are the type and reason of the last condition of the group of j; `waits` is how a message on a pod ends.
    """

    name: str
    gangs: Sequence[Gang]
    bound: str = ""
    phase: str = "Inqueue"
    said: tuple[str, str] | None = None
    waits: Mapping[str, str] = {}
    cpus: int = 4
    sessions: int = 1


READY = ("Scheduled", "tasks in gang are ready to be scheduled")
SHORT_OF_ROOM = ("Unschedulable", "NotEnoughResources")
SHORT_OF_TASKS = ("Unschedulable", "NotEnoughTasks")
FIRST, SECOND, FREE = make_task("j-0", "j"), make_task("j-1", "j"), make_task("j-1", "j", cpu=None)
MASTER, WORKERS = make_task("j-m", "j", role="m"), [make_task(f"j-w{n}", "j", role="w") for n in range(2)]
NEXT = make_gang("k", 1)

RULES = [
    # who counts for the minimum
    Rule("ready: two that get room", [gang(FIRST, SECOND)], bound="j-0 j-1", said=READY),
    Rule(
        "ready: one that is bound and does not run yet",
        [gang(on_node("j-0", "Pending"), SECOND)],
        bound="j-1",
        said=READY,
    ),
    Rule("ready: one that succeeded", [gang(on_node("j-0", "Succeeded"), SECOND)], bound="j-1", said=READY),
    Rule("ready: a pending one that asks for nothing", [gang(FIRST, FREE)], bound="j-0", said=READY),
    Rule("not ready: one that failed", [gang(on_node("j-0", "Failed"), SECOND)], said=SHORT_OF_TASKS),
    Rule("not ready: one that leaves", [gang(on_node("j-0", leaving=True), SECOND)], said=SHORT_OF_TASKS),
    Rule("not valid: too few tasks", [gang(FIRST)], said=SHORT_OF_TASKS),
    Rule("not ready: too little room", [gang(FIRST, SECOND)], cpus=1, said=SHORT_OF_ROOM),
    # roles
    Rule(
        "roles: they count where the minimum is their sum",
        [gang(*WORKERS, minimum=2, roles={"m": 1, "w": 1})],
        said=("Unschedulable", "NotEnoughPodsOfTask"),
    ),
    Rule(
        "roles: they do not where it is less",
        [gang(*WORKERS, minimum=2, roles={"m": 1, "w": 2})],
        bound="j-w0 j-w1",
        said=READY,
    ),
    Rule(
        "roles: with all of them the job is bound",
        [gang(MASTER, *WORKERS, minimum=2, roles={"m": 1, "w": 1})],
        bound="j-m j-w0 j-w1",
        said=READY,
    ),
    # room now, room to come, and what is promised of it
    Rule(
        "room to come is promised, and nobody is bound to it",
        [(make_group("v", phase="Running"), [on_node("v-0", leaving=True, group="v")]), gang(FIRST, minimum=1)],
        cpus=1,
        said=SHORT_OF_ROOM,
        waits={"j-0": "can possibly be assigned to n1, once resource is released and minAvailable is satisfied"},
    ),
    Rule(
        "what is promised to one is promised to nobody else",
        [(make_group("v", phase="Running"), [on_node("v-0", leaving=True, group="v")]), gang(FIRST, minimum=1), NEXT],
        cpus=1,
        said=SHORT_OF_ROOM,
        waits={"k-0": "0/1 nodes are available: 1 Insufficient cpu."},
    ),
    Rule(
        "what a gang gives back others have, and it says where it could have gone",
        [gang(FIRST, SECOND), NEXT],
        bound="k-0",
        cpus=1,
        said=SHORT_OF_ROOM,
        waits={"j-0": "can possibly be assigned to n1, once minAvailable is satisfied"},
    ),
    # phases
    Rule("phase: what was let in stays so until it runs", [gang(FIRST, SECOND)], cpus=1, said=SHORT_OF_ROOM),
    Rule(
        "phase: Running with the minimum",
        [gang(FIRST, SECOND)],
        bound="j-0 j-1",
        phase="Running",
        said=READY,
        sessions=2,
    ),
    Rule("phase: bound ones count", [gang(on_node("j-0"), on_node("j-1", "Pending"))], phase="Running", said=READY),
    Rule(
        "phase: Completed when all have ended",
        [gang(on_node("j-0", "Succeeded"), on_node("j-1", "Succeeded"))],
        phase="Completed",
        said=READY,
    ),
    Rule(
        "phase: not while one still runs",
        [gang(on_node("j-0", "Succeeded"), on_node("j-1"))],
        phase="Running",
        said=READY,
    ),
    Rule(
        "phase: failed ones have ended too",
        [gang(on_node("j-0", "Succeeded"), on_node("j-1", "Failed"), minimum=1)],
        phase="Completed",
        said=READY,
    ),
    Rule(
        "phase: Unknown when one runs and the gang cannot",
        [gang(on_node("j-0"), SECOND)],
        cpus=1,
        phase="Unknown",
        said=SHORT_OF_ROOM,
    ),
    Rule("phase: those that leave still count", [gang(on_node("j-0"), on_node("j-1", leaving=True))], phase="Running"),
    Rule(
        "phase: Pending when it ran and has lost all",
        [gang(FIRST, SECOND, phase="Running")],
        cpus=1,
        phase="Pending",
        said=SHORT_OF_ROOM,
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_rules_of_gangs(rule: Rule) -> None:
    nodes = [make_node("n1", cpu=rule.cpus)]
    stage = Stage("actions: allocate" + TIERS, nodes=nodes, gangs=rule.gangs).session(rule.sessions)
    group = stage.objects[PodGroup, "j"]
    assert isinstance(group, PodGroup)
    conditions = [(condition.type, condition.reason) for condition in group.status.conditions]
    assert (" ".join(sorted(stage.bound)), group.status.phase) == (rule.bound, rule.phase)
    assert conditions[-1:] == ([] if rule.said is None else [rule.said])
    assert {pod: stage.message(pod).endswith(end) for pod, end in rule.waits.items()} == dict.fromkeys(rule.waits, True)
    stage.check()


def test_gated_pod_gets_no_condition() -> None:
    gated = make_task("j-1", "j", gates=["later"])
    stage = Stage("actions: allocate" + TIERS, nodes=[make_node("n1")], gangs=[gang(FIRST, gated)]).session()
    assert (set(stage.conditions), stage.bound) == ({"j-0"}, {})


def test_unknown_gang_runs_again() -> None:
    stage = Stage("actions: allocate" + TIERS, nodes=[make_node("n1", cpu=1)], gangs=[gang(on_node("j-0"), SECOND)])
    assert stage.session().phase("j") == "Unknown"
    stage.put(make_node("n2"))
    assert stage.session(2).phase("j") == "Running"
