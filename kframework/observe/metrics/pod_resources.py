"""What every pod asks for, as `/metrics/resources` shows it: a series for each pod and resource."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kframework.core.plugin_handle import HandledEngine
from kframework.objects import PodSpec
from kframework.objects.requests import fit_requests, limits
from kframework.observe.metrics import families
from kframework.observe.metrics.families import Family
from kframework.observe.metrics.series import Series, label_pairs
from kframework.state.pods import PodInfo

_UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}


def pod_resources(engine: HandledEngine) -> tuple[Series, ...]:
    """Return the series of what the pods that an engine knows request, and what limits them."""
    return (
        _PodResources(families.POD_RESOURCE_REQUEST, engine, fit_requests),
        _PodResources(families.POD_RESOURCE_LIMIT, engine, limits),
    )


class _PodResources:
    """One of the two families; nothing of it is kept, but what a template's pods have in common."""

    def __init__(self, family: Family, engine: HandledEngine, amounts: Callable[[PodSpec], dict[str, int]]) -> None:
        self.family: Family = family
        self._engine = engine
        self._amounts = amounts

    def lines(self) -> Iterator[str]:
        """Yield the lines of one pod after the other; the engine may go on meanwhile."""
        # Until the API says where an assumed pod is, it is pending; and no pod is told of twice.
        pending, placed = dict(self._engine.pending), list(self._engine.cluster.pods.values())
        for waiting in pending.values():
            yield self._lines(waiting, "")
        for pod in placed:
            yield self._lines(pod, pod.node_name) if pod.uid not in pending else ""

    def _lines(self, pod: PodInfo, node_name: str) -> str:
        endings = pod.template.once(self.family.name, self._endings)
        if not endings:
            return ""
        names = label_pairs(("namespace", "pod", "node"), (pod.namespace, pod.name, node_name))
        return "".join([f"{self.family.name}{{{names},{ending}" for ending in endings])

    def _endings(self, spec: PodSpec) -> tuple[str, ...]:
        """Write what the pods of a template have in common: everything behind their names."""
        priority = "" if spec.priority is None else str(spec.priority)
        common = label_pairs(("scheduler", "priority"), (spec.scheduler_name or "default-scheduler", priority))
        return tuple(
            f"{common},{label_pairs(('resource', 'unit'), (name, _unit(name)))}}} {_amount(name, amount)}\n"
            for name, amount in sorted(self._amounts(spec).items())
            if amount
        )

    def reset(self) -> None:
        """Do nothing: there is nothing to forget."""


def _unit(resource: str) -> str:
    if resource.startswith("hugepages-"):
        return "bytes"
    if resource.startswith("attachable-volumes-"):
        return "integer"
    return _UNITS.get(resource, "")


def _amount(resource: str, amount: int) -> float | int:
    return amount / 1000 if resource == "cpu" else amount
