"""The same arrivals under several configurations, in simulations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.core.cycle.attempt import Attempt
from kframework.core.cycle.records import Record
from kframework.core.cycle.results import Outcome, ScheduleError, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import ExtenderClient
from kframework.core.host import Host
from kframework.core.plugin_handle import ProfilesFactory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.programmatic import ConfigurationSource
from kframework.core.runtime.registry import Registry
from kframework.errors import ConfigError
from kframework.explain.causes import DifferenceCause, find_cause
from kframework.framework.plugin import Plugin
from kframework.framework.suspendable import Suspendable
from kframework.observe.recording.reconsider import Reconsiderer
from kframework.simulation.comparison.result import (
    ConfigurationComparison,
    PodDifference,
    find_change,
    measure_differences,
    pair_nodes,
)
from kframework.simulation.display import Table
from kframework.simulation.inputs import ClusterSource, load_simulation_configuration, read_cluster, report_ignored
from kframework.simulation.measures import MeasureRecorder, SimulationMeasures
from kframework.simulation.records import PodOutcome
from kframework.simulation.simulation import Simulation
from kframework.simulation.sweep.summary import compare_measures
from kframework.state.pods import PendingPod

#: The maximum number of decisions whose cause is looked for, which takes milliseconds on thousands of nodes.
MAX_CAUSES = 1_000


class ComparisonRow(Record, frozen=True):
    """The result of one configuration; `moved` pods are elsewhere than under the first one, or wait."""

    configuration: str
    moved: int
    bound: int
    pending: int
    preempted: int
    wait_p50: float | None
    wait_p99: float | None
    cpu: float | None
    memory: float | None
    fragmentation: float
    spread: float
    seconds: float


class Comparison(dict[str, Simulation]):
    """The simulations by the names of their configurations, and a table of their results.

    They have the first seed; `measures` has those of all seeds, `node_use` the shares of each node, and `causes` the
    reasons of other decisions than under the first configuration, by pod and node.
    """

    def __init__(self) -> None:
        super().__init__()
        self.measures: dict[str, dict[int, SimulationMeasures]] = {}
        self.node_use: dict[str, Mapping[str, Mapping[str, float]]] = {}
        self.causes: dict[str, Mapping[tuple[str, str], DifferenceCause]] = {}

    @property
    def table(self) -> Table[ComparisonRow]:
        """The results of all configurations."""
        return Table(map(self._row, self), ComparisonRow.__struct_fields__)

    def moved(self, name: str) -> dict[str, tuple[str | None, str | None]]:
        """Return the pods that are elsewhere under a configuration than under the first one: both nodes."""
        return {each.pod: (each.baseline or None, each.new or None) for each in self._differences(name)}

    def result(self, name: str) -> ConfigurationComparison:
        """Return how the outcomes under a configuration differ from those under the first one, and why."""
        first = next(iter(self))
        pods = {each.pod for simulation in (self[first], self[name]) for each in simulation.outcomes}
        summary = compare_measures(
            {each: {("", seed): found for seed, found in self.measures[each].items()} for each in (first, name)}
        )
        counted = ConfigurationComparison.from_differences(first, name, len(pods), self._differences(name))
        return msgspec.structs.replace(
            counted,
            measures=measure_differences(summary),
            seeds=tuple(self.measures[first]),
            nodes=pair_nodes(self.node_use[first], self.node_use[name]),
        )

    def _differences(self, name: str) -> list[PodDifference]:
        before, after = (
            {each.pod: each for each in self[each_name].outcomes} for each_name in (next(iter(self)), name)
        )
        pods = dict.fromkeys((*before, *after))
        found = (self._compare_pod(name, pod, before.get(pod), after.get(pod)) for pod in pods)
        return [difference for difference in found if difference is not None]

    def _compare_pod(
        self, name: str, pod: str, before: PodOutcome | None, after: PodOutcome | None
    ) -> PodDifference | None:
        nodes = [None if outcome is None else outcome.node or "" for outcome in (before, after)]
        change = find_change(*nodes)
        if change is None:
            return None
        old, new = (node or "" for node in nodes)
        cause = self.causes.get(name, {}).get((pod, new))
        message = cause.message if cause is not None else after.message if after is not None else ""
        return PodDifference(pod=pod, change=change, baseline=old, new=new, message=message, cause=cause)

    def _row(self, name: str) -> ComparisonRow:
        measures = next(iter(self.measures[name].values()))
        fields = set(ComparisonRow.__struct_fields__).intersection(measures)
        own = {field: getattr(measures, field) for field in fields}
        return ComparisonRow(configuration=name, moved=len(self._differences(name)), **own)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return the result of each as a dictionary."""
        return self.table.to_dicts()

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def compare(
    cluster: ClusterSource,
    configurations: Mapping[str, ConfigurationSource | None],
    *,
    plugins: Iterable[type[Plugin]] = (),
    duration: float | None = None,
    seed: int | None = None,
    seeds: int = 1,
) -> Comparison:
    """Schedule the same pods, as `simulate` does, under several named configurations; None is the default one.

    All have the same seeds: as many as `seeds`, from `seed` on, or from that of the first configuration.
    """
    plugin_classes = tuple(plugins)
    loaded = {name: load_simulation_configuration(config, plugin_classes) for name, config in configurations.items()}
    comparison = Comparison()
    first = next(iter(loaded.values()), None)
    if first is None:
        return comparison
    if isinstance(cluster, str | Path):
        manifest = read_cluster([str(cluster)], first, plugin_classes)
        report_ignored(manifest, first, plugin_classes)
        cluster = manifest.objects
    start = first.options.seed if seed is None else seed
    simulate = partial(_simulate, list(cluster), plugins=plugin_classes, duration=duration)
    registry = Registry.with_plugins(*plugin_classes)
    for name, configuration in loaded.items():
        outcomes = next(iter(comparison.values())).outcomes if comparison else ()
        causes = CauseFinder(first, registry, {each.pod: each.node or "" for each in outcomes})
        comparison[name], recorder = simulate(configuration, start, causes)
        comparison.measures[name], comparison.node_use[name] = {start: recorder.measures}, recorder.node_use
        comparison.causes[name] = causes.found
        for each in range(start + 1, start + seeds):
            comparison.measures[name][each] = simulate(configuration, each, None)[1].measures
    return comparison


def _simulate(
    objects: ClusterSource,
    configuration: Configuration,
    seed: int,
    causes: CauseFinder | None,
    *,
    plugins: tuple[type[Plugin], ...],
    duration: float | None,
) -> tuple[Simulation, MeasureRecorder]:
    engine = PodEngine.from_configuration if causes is None else causes.create_engine
    with Simulation(objects, configuration, plugins=plugins, seed=seed, engine=engine) as simulation:
        recorder = MeasureRecorder(simulation)
        return simulation.run(duration), recorder


class CauseFinder:
    """Finds out why an engine decides otherwise than a baseline did, which put the pods on these nodes.

    `found` has the causes by pod and node, "" for none.
    """

    def __init__(self, baseline: Configuration, registry: Registry, nodes: Mapping[str, str]) -> None:
        self.found: dict[tuple[str, str], DifferenceCause] = {}
        self._baseline = baseline
        self._registry = registry
        self._nodes = nodes
        self._examined: set[tuple[str, str]] = set()

    def create_engine(
        self,
        configuration: Configuration,
        clock: Clock,
        host: Host,
        extenders: ExtenderClient,
        profiles: ProfilesFactory,
    ) -> PodEngine:
        """Create an engine that is examined, unless the two configurations cannot decide on the same state."""
        if not self._nodes:
            return PodEngine.from_configuration(configuration, clock, host, extenders, profiles)
        engine = ExaminedEngine.from_configuration(configuration, clock, host, extenders, profiles)
        try:
            baseline = Reconsiderer(engine, self._baseline, self._registry)
        except ConfigError:  # it has extenders, or imitates another Kubernetes
            return engine
        engine.on_outcome = partial(self._examine, engine, baseline)
        return engine

    def _examine(self, engine: PodEngine, baseline: Reconsiderer, pod: PendingPod, node: str) -> None:
        key, before = (pod.key, node), self._nodes.get(pod.key)
        if before in (None, node) or key in self._examined or len(self._examined) >= MAX_CAUSES:
            return
        self._examined.add(key)
        cause = find_cause(baseline.catch_up(), engine, pod, before or "", node)
        if cause is not None:
            self.found[key] = cause


class ExaminedEngine(PodEngine):
    """An engine that passes on the outcome of each search, the node or "", before anything changes."""

    on_outcome: Callable[[PendingPod, str], None] = staticmethod(lambda pod, node: None)

    @property
    def can_place_runs(self) -> bool:
        """No: the state is examined before each pod."""
        return False

    def find_node(self, attempt: Attempt, last: Search | None) -> Suspendable[tuple[Search, Outcome]]:
        search, outcome = yield from super().find_node(attempt, last)
        if not isinstance(outcome, ScheduleError):
            self.on_outcome(attempt.pod, outcome.node if isinstance(outcome, ScheduleResult) else "")
        return search, outcome
