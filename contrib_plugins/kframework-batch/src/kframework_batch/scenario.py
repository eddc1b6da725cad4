"""Scripted batch scheduling over time for tests: events at given times, then who was bound when, and who evicted.

    scenario = BatchScenario(nodes=[make_node("n1", cpu=4)], jobs=[make_job("train", 4, cpu=1, seconds=60.0)])
    scenario.at(10.0, create(make_job("late", 1)))
    record = scenario.run(120.0)
    assert record.bound["train-worker-0"] == [1.0]
    assert record.bound["late-worker-0"] == [62.0]

Only the cluster, its kubelets and the clock are fakes: it is a simulation with a script.
Sessions on a stopped clock are cheaper to set up: see `kframework_batch.testing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import inf

import msgspec

from kframework.clock import seconds_of
from kframework.engine import MemoryCluster
from kframework.objects import ApiObject, Event, Node, ObjectMeta, Pod, RawQuantity
from kframework.simulation.running import Action, Script, TimedAction
from kframework.testing import RUN_SECONDS, Change, make_pod
from kframework_batch.config import BatchConfiguration, default_configuration, parse
from kframework_batch.engine import SCHEDULER_NAME
from kframework_batch.objects import Job, JobSpec, PodGroup, Queue, TaskSpec
from kframework_batch.pod_templates import PodTemplateSpec, template_spec
from kframework_batch.program import BatchRegistry, compile_program
from kframework_batch.settings import ProgramSettings
from kframework_batch.simulation import create_simulation
from kframework_batch.task_status import has_ended


def make_job(
    name: str,
    replicas: int,
    *,
    minimum: int | None = None,
    cpu: RawQuantity | None = 1,
    memory: RawQuantity | None = None,
    requests: Mapping[str, RawQuantity] | None = None,
    queue: str = "default",
    priority_class: str = "",
    seconds: float | None = None,
    grace: int = 2,
    **more: object,
) -> Job:
    """Make a job of equal pods `name-worker-0`, `name-worker-1`, ...; all of them are the minimum by default.

    Pods run for `seconds`, or without end, and take the `grace` to end; `more` is for `make_pod`.
    """
    pod = make_pod(cpu=cpu, memory=memory, requests=dict(requests or {}), scheduler_name=SCHEDULER_NAME, **more)  # type: ignore[arg-type]  # whatever make_pod takes
    annotations = pod.metadata.annotations | ({} if seconds is None else {RUN_SECONDS: f"{seconds:g}"})
    template = PodTemplateSpec(
        metadata=ObjectMeta(annotations=annotations, labels=pod.metadata.labels),
        spec=msgspec.structs.replace(
            template_spec(pod.spec), restart_policy="Never", termination_grace_period_seconds=grace
        ),
    )
    least = replicas if minimum is None else minimum
    task = TaskSpec(name="worker", replicas=replicas, min_available=least, template=template)
    spec = JobSpec(
        scheduler_name=SCHEDULER_NAME,
        min_available=least,
        queue=queue,
        priority_class_name=priority_class,
        tasks=(task,),
    )
    return Job(metadata=ObjectMeta(name=name, namespace="default", uid=f"job-{name}"), spec=spec)


class PodRun(msgspec.Struct):
    """A pod on a node, from when it was bound until it had ended or was gone, in seconds since the start."""

    pod: str
    node: str
    started_at: float
    ended_at: float = inf


class BatchScenarioResult(msgspec.Struct):
    """The result of a scenario; times are in seconds since the start, and pods go by their names.

    `cluster` is as it was at the end, `stays` are in the order in which they began, `began` is in seconds since 1970.
    """

    cluster: MemoryCluster
    started_at: float
    pod_runs: list[PodRun]

    @property
    def bound(self) -> dict[str, list[float]]:
        """The times at which pods were bound, by name: several for recreated pods."""
        times: dict[str, list[float]] = {}
        for stay in self.pod_runs:
            times.setdefault(stay.pod, []).append(stay.started_at)
        return times

    @property
    def evicted(self) -> list[tuple[float, str, str]]:
        """Whom sessions sent away: when, who, and why."""
        found = []
        for event in self.cluster.objects(Event):
            if event.reason == "Evict":
                when = round(seconds_of(event.event_time or "") - self.started_at, 3)
                found.append((when, event.regarding.name, event.note.removeprefix("Evicted because of ")))
        return found

    def victims(self, job: str, since: float = 0.0) -> list[float]:
        """List when pods of a job were sent away by a session."""
        return [when for when, pod, _ in self.evicted if _is_pod_of(pod, job) and when >= since]

    def running(self, job: str, at: float = inf) -> int:
        """Count the pods of a job that were on nodes at a time, or in the end."""
        return sum(_is_pod_of(stay.pod, job) and stay.started_at <= at <= stay.ended_at for stay in self.pod_runs)

    def phase(self, job: str) -> str:
        groups = self.cluster.objects(PodGroup)
        return next(group.status.phase for group in groups if group.metadata.name == f"{job}-job-{job}")

    def message(self, pod: str) -> str:
        conditions = self.cluster.read(Pod, pod, "default").status.conditions
        return next(each.message for each in conditions if each.type == "PodScheduled")


class BatchScenario:
    """A simulation with a script: a cluster, a configuration, and events at given times.

    `classes` are actions and plugins that are added to the installed ones, or replace them; `objects` are all but
    nodes, queues and jobs.
    """

    def __init__(
        self,
        configuration: str | BatchConfiguration | None = None,
        *,
        nodes: Iterable[Node] = (),
        queues: Iterable[Queue] = (),
        jobs: Iterable[Job] = (),
        objects: Iterable[ApiObject] = (),
        classes: Sequence[type] = (),
        seed: int = 0,
    ) -> None:
        read = default_configuration() if configuration is None else configuration
        program = compile_program(parse(read) if isinstance(read, str) else read, BatchRegistry.with_classes(*classes))
        self._settings = ProgramSettings(program, seed=seed)
        self._objects: list[ApiObject] = [*objects, *nodes, *queues, *jobs]
        self._actions: list[TimedAction] = []

    def at(self, seconds: float, *actions: Action) -> BatchScenario:
        """Schedule actions, in seconds after the start; `kframework.testing` has some."""
        self._actions += [(seconds, action) for action in actions]
        return self

    def run(self, until: float) -> BatchScenarioResult:
        """Run for this number of virtual seconds."""
        script = partial(Script, actions=self._actions)
        with create_simulation(self._objects, self._settings, controllers=[script]) as simulation:
            record = BatchScenarioResult(simulation.cluster, simulation.clock.now(), [])
            there: dict[str, PodRun] = {}

            def note(change: Change) -> None:
                pod = change.subject
                assert isinstance(pod, Pod)
                uid, seconds = pod.metadata.uid, simulation.clock.now() - record.started_at
                if change.new is None or has_ended(pod):
                    if uid in there:
                        there.pop(uid).ended_at = seconds
                elif pod.spec.node_name and uid not in there:
                    there[uid] = PodRun(pod.metadata.name, pod.spec.node_name, seconds)
                    record.pod_runs.append(there[uid])

            simulation.cluster.subscribe([Pod], note)
            simulation.run(until)
        return record


def _is_pod_of(pod: str, job: str) -> bool:
    return pod.startswith(f"{job}-worker-")
