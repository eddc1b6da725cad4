"""The same arrivals under several configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kframework.core.cycle.records import Record
from kframework.core.runtime.programmatic import ConfigurationSource
from kframework.framework.plugin import Plugin
from kframework.simulation.display import Table
from kframework.simulation.inputs import ClusterSource, load_simulation_configuration, read_cluster, report_groups
from kframework.simulation.simulation import Simulation, simulate
from kframework.values.feature_gates import DEFAULT_GATES


class ComparisonRow(Record, frozen=True):
    """The result of one configuration; `moved` pods are elsewhere than under the first one, or wait."""

    configuration: str
    bound: int
    pending: int
    attempts: int
    preempted: int
    moved: int
    seconds: float


class Comparison(dict[str, Simulation]):
    """The simulations by the names of their configurations, and a table of their results."""

    @property
    def table(self) -> Table[ComparisonRow]:
        """The results of all configurations."""
        return Table(map(self._row, self), ComparisonRow.__struct_fields__)

    def moved(self, name: str) -> dict[str, tuple[str | None, str | None]]:
        """Return the pods that are elsewhere under a configuration than under the first one: both nodes."""
        first = {each.pod: each.node for each in next(iter(self.values())).outcomes}
        return {
            each.pod: (first.get(each.pod), each.node)
            for each in self[name].outcomes
            if each.node != first.get(each.pod)
        }

    def _row(self, name: str) -> ComparisonRow:
        simulation = self[name]
        outcomes, decisions = simulation.outcomes, simulation.decisions
        bound = sum(each.node is not None for each in outcomes)
        preempted = sum(len(each.victims) for each in decisions)
        moved = len(self.moved(name))
        return ComparisonRow(name, bound, len(outcomes) - bound, len(decisions), preempted, moved, simulation.seconds)

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
) -> Comparison:
    """Schedule the same pods, as `simulate` does, under several named configurations; None is the default one."""
    plugin_classes = tuple(plugins)
    loaded = {name: load_simulation_configuration(config, plugin_classes) for name, config in configurations.items()}
    if isinstance(cluster, str | Path):
        first = next(iter(loaded.values()), None)
        manifest = read_cluster([str(cluster)], first, plugin_classes)
        report_groups(manifest, DEFAULT_GATES if first is None else first.options.gates)
        cluster = manifest.objects
    objects = list(cluster)
    return Comparison(
        {name: simulate(objects, config, plugins=plugin_classes, duration=duration) for name, config in loaded.items()}
    )
