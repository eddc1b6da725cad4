"""The scheduler on a cluster in memory, in the hands of a program: to the end at once, or step by step.

    with Simulation("cluster.yaml", plugins=[FewestPods]) as simulation:
        print(simulation.step())
        simulation.run()
        print(simulation.outcomes)
        print(simulation.explain("web-3"))

Time is virtual and passes only while the simulation goes on. The same input comes to the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TypeVar
from weakref import finalize

from kframework.clock import VIRTUAL_EPOCH
from kframework.core.cycle.decision import Binding, Decision, Observer
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.given import ConfigurationSource
from kframework.core.runtime.registry import Registry
from kframework.errors import InputError, Unexplainable
from kframework.explain.account import explain
from kframework.explain.lookup import find_pod, not_found_message
from kframework.explain.view import PodEngineShown
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject, Pod
from kframework.observe.history import History
from kframework.observe.report import report
from kframework.observe.web.nodes import nodes
from kframework.scheduler.garbage import collecting_rarely, spare
from kframework.scheduler.scheduler import MakeEngine
from kframework.scheduler.simulate import Outcome, Progress, SimulatedRun, SimulationResult
from kframework.scheduler.slices import finished
from kframework.simulation.explained import Explained
from kframework.simulation.inputs import ClusterSource, configured, read_cluster
from kframework.simulation.node_picture import node_picture
from kframework.simulation.records import bindings_table, decisions_table, outcomes_table
from kframework.simulation.tables import Table

T = TypeVar("T", bound=ApiObject)


class Simulation:
    """A cluster in memory and the scheduler on it.

    `cluster` is a cluster file, or objects; its nodes have the `devices` that another file describes, too. `config` is
    a KubeSchedulerConfiguration: a file, or the same as a mapping. It can name `plugins` beside the installed ones;
    without it the default profile has them wherever they can run. `seed` takes the place of the configured one.
    `observers` are told of every attempt and binding as it ends. `workload_controllers` names those that make pods of
    Deployments and their like, as kube-controller-manager's flag does. Raises ConfigError and InputError for what
    cannot be used. Nothing need be closed that is not used any more; `with` closes it at once.
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
        engine: MakeEngine[PodEngine] = PodEngine.of,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        timed_share: float = 0.0,
        workload_controllers: Sequence[str] = ("*",),
    ) -> None:
        given = tuple(plugins)
        configuration = configured(config, given)
        if seed is not None:
            configuration = replace(configuration, options=configuration.options.model_copy(update={"seed": seed}))
        if isinstance(cluster, str | Path):
            cluster = read_cluster([str(cluster)], configuration, given, devices=_text(devices)).objects
        elif devices is not None:
            raise InputError("devices of a file go with a cluster file; for objects, load() reads both")
        self._history = History()
        self._run: SimulatedRun[PodEngine] = SimulatedRun(
            cluster,
            configuration,
            registry=Registry.of(*given),
            observers=(self._history, *observers),
            on_progress=on_progress,
            engine=engine,
            timed_share=timed_share,
            workload_controllers=workload_controllers,
        )
        self._close = finalize(self, self._run.close)

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all that runs: it cannot go on afterwards, but be looked at."""
        self._close()

    # -- going on --------------------------------------------------------------------------------------------------

    def step(self) -> Decision | None:
        """Go on until the next attempt to schedule a pod has ended, and return it; None if nothing moves any more."""
        return self._run.step()

    def run(self, seconds: float | None = None) -> Simulation:
        """Go on until nothing moves any more, or for so many virtual seconds; return the simulation itself."""
        with collecting_rarely():
            spare()
            if seconds is None:
                self._run.run()
            else:
                self._run.run_for(seconds)
        return self

    # -- what happens to the cluster -------------------------------------------------------------------------------

    def create(self, subject: T) -> T:
        """Create an object, and return it as stored; ClusterError as an API server has it."""
        return self._run.cluster.add(subject)

    def patch(self, kind: type[T], name: str, changes: Mapping[str, object], namespace: str = "default") -> T:
        """Merge changes, spelled as in YAML, into an object, its status too; None takes a field away."""
        return self._run.cluster.merge(kind, name, changes, namespace)

    def delete(self, kind: type[ApiObject], name: str, namespace: str = "default") -> None:
        """Delete an object; a pod on a node first gets its grace period."""
        self._run.cluster.remove(kind, name, namespace)

    def objects(self, kind: type[T]) -> list[T]:
        """Return the objects of a kind as they are now."""
        return self._run.cluster.objects(kind)

    # -- what came of it -------------------------------------------------------------------------------------------

    @property
    def result(self) -> SimulationResult:
        """All that it has come to so far, as one record."""
        return self._run.result

    @property
    def seconds(self) -> float:
        """The virtual time that has passed."""
        return self._run.seconds

    @property
    def is_over(self) -> bool:
        """Whether nothing moved any more when it last went on."""
        return self._run.is_over

    @property
    def outcomes(self) -> Table[Outcome]:
        """Where each pod is, or why it waits, in the order of creation."""
        return outcomes_table(self.result.outcomes)

    @property
    def decisions(self) -> Table[Decision]:
        """Every attempt to schedule a pod, in order."""
        return decisions_table(self.result.decisions)

    @property
    def bindings(self) -> Table[Binding]:
        """Every binding cycle that has ended, in order."""
        return bindings_table(self.result.bindings)

    def explain(self, pod: str) -> Explained:
        """Say why a pod waits or is where it is, and what would help; `name` or `namespace/name`.

        Raises Unexplainable for a pod of which the scheduler knows nothing.
        """
        namespace, _, name = pod.rpartition("/")
        namespace = namespace or "default"
        whole = self._run.cluster.find(Pod, name, namespace)
        engine = self._run.scheduler.engine
        found = finished(find_pod(engine, namespace, name))
        if found is None:
            raise Unexplainable(not_found_message(namespace, name, whole, self._run.scheduler.profiles))
        return Explained(explain(engine, self._history, found, whole))

    def report(self, title: str = "Simulation") -> str:
        """Make the page that shows what came of it, and why: HTML that needs nothing beside itself."""
        return report(PodEngineShown(self._run.scheduler.engine, self._history), title=title, start=VIRTUAL_EPOCH)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return where each pod is as a dictionary, as pandas.DataFrame and polars.DataFrame take them."""
        return self.outcomes.to_dicts()

    def __repr__(self) -> str:
        return f"<Simulation: {self._account()}>"

    def _repr_html_(self) -> str:
        """Return the account, the picture of the nodes and the table of the pods as a notebook shows them."""
        picture = node_picture(nodes(self._run.scheduler.engine.cluster.nodes))
        return f"<p>{escape(self._account())}</p>{picture}{self.outcomes._repr_html_()}"

    def _account(self) -> str:
        outcomes = self.result.outcomes
        bound = sum(each.node is not None for each in outcomes)
        end = "" if self.is_over else ", not at its end"
        return f"{bound} of {len(outcomes)} pods bound, {self.seconds:g} s of virtual time{end}"


def simulate(
    cluster: ClusterSource,
    config: ConfigurationSource | None = None,
    *,
    plugins: Iterable[type[Plugin]] = (),
    devices: str | Path | None = None,
    seed: int | None = None,
    duration: float | None = None,
) -> Simulation:
    """Schedule the pods of a cluster on virtual time, and return the simulation at its end.

    It ends when nothing moves any more, or after `duration` virtual seconds. All else is as for `Simulation`.
    """
    with Simulation(cluster, config, plugins=plugins, devices=devices, seed=seed) as simulation:
        return simulation.run(duration)


def _text(path: str | Path | None) -> str | None:
    return None if path is None else str(path)
