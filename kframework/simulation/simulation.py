"""A scheduler, or several, on a cluster in memory, under the control of a program: to the end at once, or step by step.

    with Simulation("cluster.yaml", plugins=[FewestPods]) as simulation:
        print(simulation.step())
        simulation.run()
        print(simulation.outcomes)
        print(simulation.explain("web-3"))

Time is virtual and passes only while the simulation runs. The same input gives the same decisions in every process.
`kframework simulate`, `Scenario` in kframework.testing, `kframework bench` and the sessions of kframework-batch are
simulations with other plugins, engines, controllers or time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import finalize

from msgspec.structs import replace

from kframework.clock import LoopClock
from kframework.config.models import ExtenderSettings
from kframework.core.cycle.records import Binding, Decision, Observer
from kframework.core.cycle.suspendable import ExtenderError
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.programmatic import ConfigurationSource
from kframework.core.runtime.registry import Registry
from kframework.errors import ClusterError, ExplainError, InputError
from kframework.framework.plugin import Plugin
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, Pod
from kframework.observe.text_table import format_count
from kframework.observe.web.nodes import list_nodes
from kframework.scheduler.extender import Extender
from kframework.scheduler.extender_http import HttpExtenderTransport
from kframework.scheduler.gc_policy import gc_paused
from kframework.scheduler.scheduler import E, EngineFactory, Scheduler
from kframework.simulation.controllers import (
    STANDARD_CONTROLLERS,
    WORKLOADS,
    Controller,
    ControllerFactory,
    create_group_controllers,
    create_workload_controllers,
)
from kframework.simulation.display import PodExplanation, Table, node_picture
from kframework.simulation.inputs import ClusterSource, load_simulation_configuration, read_cluster
from kframework.simulation.records import (
    Gate,
    PodOutcome,
    Progress,
    Records,
    SimulationResult,
    bindings_table,
    decisions_table,
    newest_instant,
    outcomes_table,
)
from kframework.simulation.running import VIRTUAL, SimulationRun, TimeMode
from kframework.simulation.timetable import read_timetable
from kframework.state.pods import PodInfo

if TYPE_CHECKING:
    from kframework.explain.explanation import NodeChoice

T = TypeVar("T")
K = TypeVar("K", bound=ApiObject)


class Simulation(Generic[E]):
    """A cluster in memory, its controllers, and a scheduler; `replicas` create the engines of more schedulers.

    `cluster` is a cluster file, or objects; its nodes have the `devices` that another file describes, too. `config` is
    a KubeSchedulerConfiguration: a file, or the same as a mapping. It can name `plugins` in addition to installed ones;
    without it the default profile runs them at all their points. `seed` replaces the configured one. `observers`
    receive every attempt and binding when it ends. `workload_controllers` names those that create pods for Deployments
    and the like, as kube-controller-manager's flag does. Raises ConfigError and InputError for invalid arguments.
    A simulation need not be closed; `with` closes it at once.

    `engine` creates another engine than the pod engine, `registry` has the names for its configuration, `controllers`
    run with it. Plugins are timed in `timed_share` of the attempts. `max_records` attempts and bindings are kept.
    """

    def __init__(
        self,
        cluster: ClusterSource,
        config: ConfigurationSource | None = None,
        *,
        plugins: Iterable[type[Plugin]] = (),
        devices: str | Path | None = None,
        seed: int | None = None,
        observers: Iterable[Observer] = (),
        engine: EngineFactory[E] = PodEngine.from_configuration,  # type: ignore[assignment]  # E is PodEngine where none is given
        replicas: Iterable[EngineFactory[E]] = (),
        registry: Registry | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        timed_share: float = 0.0,
        controllers: Iterable[ControllerFactory] = STANDARD_CONTROLLERS,
        workload_controllers: Sequence[str] = ("*",),
        time: TimeMode = VIRTUAL,
        max_records: int | None = None,
    ) -> None:
        plugin_classes = tuple(plugins)
        configuration = load_simulation_configuration(config, plugin_classes, seed)
        if isinstance(cluster, str | Path):
            file = None if devices is None else str(devices)
            cluster = read_cluster([str(cluster)], configuration, plugin_classes, devices=file).objects
        elif devices is not None:
            raise InputError("devices of a file go with a cluster file; for objects, load() reads both")
        runner = asyncio.Runner(loop_factory=time.create_loop)
        try:
            cluster = tuple(cluster)
            timetable = read_timetable(cluster)
            self.clock: LoopClock = LoopClock(runner.get_loop(), newest_instant(cluster))
            with gc_paused():
                self.cluster: MemoryCluster = MemoryCluster(
                    self.clock, timetable.initial, feature_gates=configuration.options.gates
                )
            self._records = Records(self.cluster, self.clock, on_progress, max_records)
            self._workload_controllers = workload_controllers
            workloads = tuple(create_workload_controllers(workload_controllers, cluster, self.cluster, self.clock))
            self._has_workload_controllers = bool(workloads)
            self.controllers: Sequence[Controller] = (
                *(create(self.cluster, self.clock) for create in controllers),
                *create_group_controllers(self.cluster, self.clock),
                *workloads,
                *timetable.create_controllers(self.cluster, self.clock),
            )
            all_observers = (self._records, *observers)
            self.schedulers: Sequence[Scheduler[E]] = [
                Scheduler(
                    configuration,
                    self.cluster,
                    self.clock,
                    registry=registry or Registry.with_plugins(*plugin_classes),
                    observers=all_observers,
                    slice=time.slice,
                    extender=partial(_SimulatedExtender, cluster=self.cluster),
                    engine=create,
                    timed_share=timed_share,
                )
                for create in (engine, *replicas)
            ]
        except BaseException:
            runner.close()
            raise
        #: When it starts: at the newest instant in the objects, in seconds since 1970.
        self.started_at: float = self.clock.now()
        self._run = SimulationRun(runner, self.schedulers, self.controllers, self._records)
        self.cluster.subscribe([*_kinds(self.controllers)], self._records.on_change)
        self._close = finalize(self, self._run.close)

    def __enter__(self) -> Simulation[E]:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything: afterwards it cannot run, but its results can be read."""
        self._close()

    # -- going on --------------------------------------------------------------------------------------------------

    def step(self) -> Decision | None:
        """Run until the next attempt to schedule a pod has ended, and return it; None if nothing changes any more."""
        return self._run.step()

    def run(self, seconds: float | None = None) -> Simulation[E]:
        """Run until nothing changes any more, or for some virtual seconds; return the simulation itself."""
        if seconds is None:
            self._run.run_to_end()
        else:
            self._run.run_for(seconds)
        return self

    def run_to_end(self, limit: float) -> Simulation[E]:
        """Run until nothing changes any more, for `limit` seconds at most; return the simulation itself."""
        self._run.run_to_end(limit)
        return self

    def run_until(self, work: Coroutine[object, object, T]) -> T:
        """Run until this work, which is concurrent with the scheduler, has ended; return its result."""
        return self._run.run_until(work)

    # -- changes of the cluster ------------------------------------------------------------------------------------

    def create(self, subject: K) -> K:
        """Create an object, and return it as stored; ClusterError as an API server has it."""
        created = self.cluster.add(subject)
        if not self._has_workload_controllers and isinstance(subject, WORKLOADS):
            self._has_workload_controllers = True
            names = self._workload_controllers
            controllers = tuple(create_workload_controllers(names, [subject], self.cluster, self.clock))
            followed = _kinds(self.controllers)
            kinds = [kind for kind in _kinds(controllers) if kind not in followed]
            self.cluster.subscribe(kinds, self._records.on_change)
            self.controllers = (*self.controllers, *controllers)
            self._run.start(controllers)
        return created

    def patch(self, kind: type[K], name: str, changes: Mapping[str, object], namespace: str = "default") -> K:
        """Merge changes, spelled as in YAML, into an object, its status too; None takes a field away."""
        return self.cluster.merge(kind, name, changes, namespace)

    def delete(self, kind: type[ApiObject], name: str, namespace: str = "default") -> None:
        """Delete an object; a pod on a node first gets its grace period."""
        self.cluster.remove(kind, name, namespace)

    def objects(self, kind: type[K]) -> list[K]:
        """Return the objects of a kind as they are now."""
        return self.cluster.objects(kind)

    @property
    def scheduler(self) -> Scheduler[E]:
        """The scheduler, the first one if there are several."""
        return self.schedulers[0]

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def result(self) -> SimulationResult:
        """All results so far, as one record."""
        records, run = self._records, self._run
        return SimulationResult(
            records.outcomes(self._gates()),
            records.decisions.copy(),
            records.bindings.copy(),
            records.preemptions.copy(),
            self.seconds,
            run.retrying,
            run.stuck,
            self.scheduler.profiles.warnings,
        )

    @property
    def seconds(self) -> float:
        """The virtual time that has passed."""
        return self.clock.now() - self.started_at

    @property
    def is_over(self) -> bool:
        """Whether the last run ended because nothing changed any more."""
        return self._run.is_over

    @property
    def outcomes(self) -> Table[PodOutcome]:
        """The node of each pod, or the reason why it waits, in the order of creation."""
        return outcomes_table(self._records.outcomes(self._gates()))

    def _gates(self) -> dict[str, Gate]:
        engines = [each.engine for each in self.schedulers]
        queues = [each.queue for each in engines if isinstance(each, PodEngine)]
        named = (
            (queue, name) for queue in queues for name in queue.count_by_queue() if name in ("gated", "incomplete")
        )
        held = chain.from_iterable(queue.pods_in(name) for queue, name in named)
        return {queued.pod.uid: Gate(queued.gating_plugin, queued.gate_message) for queued in held}

    @property
    def decisions(self) -> Table[Decision]:
        """Every attempt to schedule a pod, in order."""
        return decisions_table(self._records.decisions, self.started_at)

    @property
    def preemptions(self) -> Sequence[Decision]:
        """The attempts that chose victims, in order."""
        return self._records.preemptions

    @property
    def bindings(self) -> Table[Binding]:
        """Every binding cycle that has ended, in order."""
        return bindings_table(self._records.bindings, self.started_at)

    def explain(self: Simulation[PodEngine], pod: str) -> PodExplanation:
        """Explain a pod, `name` or `namespace/name`, and what would help; ExplainError if it is unknown."""
        from kframework.explain.explainer import explain  # most simulations explain nothing
        from kframework.explain.lookup import find_pod, not_found_message
        from kframework.scheduler.cooperative import run_to_end

        namespace, _, name = pod.rpartition("/")
        namespace = namespace or "default"
        whole = self.cluster.find(Pod, name, namespace)
        engine = self.scheduler.engine
        if whole is not None:  # of several schedulers, the one that has it waiting knows why
            engine = next(
                (each.engine for each in self.schedulers if whole.metadata.uid in each.engine.pending), engine
            )
        pod_info = run_to_end(find_pod(engine, namespace, name))
        if pod_info is None:
            raise ExplainError(not_found_message(self.scheduler.engine, namespace, name, whole))
        return PodExplanation(explain(engine, self._records.history, pod_info, whole))

    def run_and_explain(self: Simulation[PodEngine], pod: str) -> PodExplanation:
        """Run until nothing changes any more, and explain a pod, the choice of its node by the state at the decision.

        The pod is named as for `explain`. Raises ExplainError if it is unknown in the end.
        """
        from kframework.explain.choice import explain_decision
        from kframework.explain.lookup import unassign

        engine, key = self.scheduler.engine, pod if "/" in pod else f"default/{pod}"
        choices: dict[int, NodeChoice | None] = {}
        while (decision := self.step()) is not None:
            assumed = engine.cluster.pods.get(decision.uid)
            if decision.pod == key and assumed is not None:
                whole = self.cluster.find(Pod, assumed.name, assumed.namespace)
                target = unassign(assumed, whole, engine.cluster.interner)
                choices[decision.attempt] = explain_decision(engine, target, decision)
        explanation = self.explain(pod).explanation
        last = explanation.last_decision
        if last is None or last.attempt not in choices:
            return PodExplanation(explanation)
        return PodExplanation(replace(explanation, choice=choices[last.attempt]))

    def report(self: Simulation[PodEngine], title: str = "Simulation") -> str:
        """Create the page with the results and their reasons: self-contained HTML."""
        from kframework.explain.view import PodEngineView
        from kframework.observe.report import report

        return report(PodEngineView(self.scheduler.engine, self._records.history), title=title, start=self.started_at)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return where each pod is as a dictionary, as pandas.DataFrame and polars.DataFrame take them."""
        return self.outcomes.to_dicts()

    def __repr__(self) -> str:
        return f"<Simulation: {self._describe()}>"

    def _repr_html_(self) -> str:
        picture = node_picture(list_nodes(self.scheduler.engine.cluster.nodes))
        return f"<p>{escape(self._describe())}</p>{picture}{self.outcomes._repr_html_()}"

    def _describe(self) -> str:
        outcomes = self._records.outcomes({})
        bound = sum(each.node is not None for each in outcomes)
        end = "" if self.is_over else ", not at its end"
        return f"{bound} of {format_count(len(outcomes), 'pod')} bound, {self.seconds:g} s of virtual time{end}"


def _kinds(controllers: Iterable[Controller]) -> dict[type[ApiObject], None]:
    """Return the kinds that controllers follow, in order."""
    return dict.fromkeys(kind for controller in controllers for kind in controller.kinds)


class _SimulatedExtender(Extender):
    """An extender that is really called. Its bindings are repeated in the cluster in memory, which it cannot reach."""

    def __init__(self, settings: ExtenderSettings, cluster: MemoryCluster) -> None:
        super().__init__(settings, HttpExtenderTransport(settings))
        self._cluster = cluster

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        await super().bind(pod, node_name)
        try:
            await self._cluster.bind(pod.namespace, pod.name, pod.uid, node_name)
        except ClusterError as error:
            raise ExtenderError(str(error)) from error


def simulate(
    cluster: ClusterSource,
    config: ConfigurationSource | None = None,
    *,
    plugins: Iterable[type[Plugin]] = (),
    devices: str | Path | None = None,
    seed: int | None = None,
    duration: float | None = None,
) -> Simulation:
    """Schedule as `Simulation` does until nothing changes any more, or `duration` virtual seconds, and return it."""
    with Simulation(cluster, config, plugins=plugins, devices=devices, seed=seed) as simulation:
        return simulation.run(duration)
