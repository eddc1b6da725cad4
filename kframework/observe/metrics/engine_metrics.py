"""Metrics read from an engine when they are scraped, so that nothing is kept twice: its queue, its cache, its pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kframework.core.engine import Engine
from kframework.core.pod_engine import PodEngine
from kframework.core.queue.group_queue import GroupQueue
from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.core.shadow.follower import shadows_of
from kframework.framework.source import Source
from kframework.objects import PodSpec
from kframework.objects.requests import fit_requests, limits
from kframework.observe.metrics import families
from kframework.observe.metrics.attempts import EXTENSION_POINTS
from kframework.observe.metrics.families import Family, event_label
from kframework.observe.metrics.series import ScrapedSeries, Series, format_labels
from kframework.state.pods import PodInfo

_UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}


def engine_series(engine: PodEngine) -> tuple[Series, ...]:
    queue, cluster = engine.queue, engine.cluster
    minor = cluster.feature_gates.minor

    def inflight_events() -> Mapping[tuple[str, ...], int]:
        in_flight = queue.in_flight
        counts: dict[tuple[str, ...], int] = {("PodPopped",): len(in_flight)}
        return counts | {(event_label(label, minor),): count for label, count in in_flight.event_counts.items()}

    def incoming_pods() -> Mapping[tuple[str, ...], int]:
        return {(name, event_label(label, minor)): count for (name, label), count in queue.incoming.items()}

    def cache_size() -> Mapping[tuple[str, ...], int]:
        sizes = {"nodes": len(cluster.nodes), "pods": len(cluster.pods), "assumed_pods": len(cluster.assumed)}
        return {(name,): size for name, size in sizes.items()}

    def by_source(read: Callable[[Source[object]], int | None]) -> Mapping[tuple[str, ...], int]:
        values = {(source.profile, source.plugin, source.name): read(source) for source in engine.sources}
        return {labels: value for labels, value in values.items() if value is not None}

    def age(source: Source[object]) -> int | None:
        return None if source.updated_at is None else round(engine.clock.now() - source.updated_at)

    def fetches() -> Mapping[tuple[str, ...], int]:
        succeeded = by_source(lambda source: source.updates)
        failed = by_source(lambda source: source.failures)
        return {(*labels, "success"): n for labels, n in succeeded.items()} | {
            (*labels, "error"): n for labels, n in failed.items()
        }

    def binding_since() -> Mapping[tuple[str, ...], list[float]]:
        since: dict[tuple[str, ...], list[float]] = {}
        for reserved in cluster.waiting:
            hook, started_at = reserved.running_hooks
            for plugin, moment in started_at.items():
                since.setdefault((EXTENSION_POINTS[hook], plugin), []).append(moment)
        return since

    def binding_longest_wait() -> Mapping[tuple[str, ...], float]:
        return {labels: engine.clock.now() - min(since) for labels, since in binding_since().items()}

    def shadow_decisions() -> Mapping[tuple[str, ...], int]:
        counts = ((shadow, outcome, count) for shadow in shadows_of(engine) for outcome, count in shadow.counts.items())
        return {(shadow.profile, shadow.name, outcome.replace(" ", "_")): count for shadow, outcome, count in counts}

    return (
        ScrapedSeries(families.SHADOW_DECISIONS, shadow_decisions),
        ScrapedSeries(
            families.SHADOW_SKIPPED_PODS,
            lambda: {(shadow.profile, shadow.name): shadow.skipped for shadow in shadows_of(engine)},
        ),
        ScrapedSeries(
            families.SHADOW_SHARE,
            lambda: {(shadow.profile, shadow.name): shadow.budget.share for shadow in shadows_of(engine)},
        ),
        ScrapedSeries(
            families.PENDING_PODS, lambda: {(name,): count for name, count in queue.count_by_queue().items()}
        ),
        ScrapedSeries(families.QUEUED_ENTITIES, lambda: _queued_entities(queue)),
        ScrapedSeries(families.QUEUE_INCOMING_PODS, incoming_pods),
        ScrapedSeries(
            families.QUEUE_INCOMING_ENTITIES,
            lambda: {
                (name, event_label(label, minor), kind): count
                for (name, label, kind), count in _incoming_entities(queue).items()
            },
        ),
        ScrapedSeries(
            families.UNSCHEDULABLE_PODS, lambda: {key[::-1]: count for key, count in queue.count_by_plugin().items()}
        ),
        ScrapedSeries(families.INFLIGHT_EVENTS, inflight_events),
        ScrapedSeries(families.CACHE_SIZE, cache_size),
        ScrapedSeries(
            families.BINDING_WAITS, lambda: {labels: len(since) for labels, since in binding_since().items()}
        ),
        ScrapedSeries(families.BINDING_LONGEST_WAIT, binding_longest_wait),
        ScrapedSeries(families.GOROUTINES, lambda: {("binding",): len(cluster.waiting)}),
        ScrapedSeries(families.SOURCE_AGE, lambda: by_source(age)),
        ScrapedSeries(families.SOURCE_VALUES, lambda: by_source(len)),
        ScrapedSeries(families.SOURCE_FRESH, lambda: by_source(lambda source: int(source.fresh))),
        ScrapedSeries(families.SOURCE_FETCHES, fetches),
    )


def _queued_entities(queue: SchedulingQueue) -> dict[tuple[str, ...], int]:
    """Count what is queued by queue and type."""
    if isinstance(queue, GroupQueue):
        return queue.count_entities()
    return {(name, "pod"): count for name, count in queue.count_by_queue().items()}


def _incoming_entities(queue: SchedulingQueue) -> dict[tuple[str, str, str], int]:
    """Count what entered the queues by queue, event and type."""
    if not isinstance(queue, GroupQueue):
        return {(*key, "pod"): count for key, count in queue.incoming.items()}
    pods = queue.incoming - queue.incoming_members
    return {(*key, "pod"): count for key, count in pods.items()} | queue.incoming_groups


def pod_resources(engine: Engine) -> tuple[Series, ...]:
    return (
        _PodResources(families.POD_RESOURCE_REQUEST, engine, fit_requests),
        _PodResources(families.POD_RESOURCE_LIMIT, engine, limits),
    )


class _PodResources(Series):
    """One of the two families; only the common parts of a template's pods are kept."""

    def __init__(self, family: Family, engine: Engine, amounts: Callable[[PodSpec], dict[str, int]]) -> None:
        self.family = family
        self._engine = engine
        self._amounts = amounts

    def lines(self) -> Iterator[str]:
        # The engine may continue meanwhile. An assumed pod is pending until the API confirms it; no pod is reported
        # twice.
        pending, on_nodes = dict(self._engine.pending), list(self._engine.cluster.pods.values())
        for waiting in pending.values():
            yield self._lines(waiting, "")
        for pod in on_nodes:
            yield self._lines(pod, pod.node_name) if pod.uid not in pending else ""

    def _lines(self, pod: PodInfo, node_name: str) -> str:
        endings = pod.template.cached(self.family.name, self._label_endings)
        if not endings:
            return ""
        names = format_labels(("namespace", "pod", "node"), (pod.namespace, pod.name, node_name))
        return "".join([f"{self.family.name}{{{names},{ending}" for ending in endings])

    def _label_endings(self, spec: PodSpec) -> tuple[str, ...]:
        """Write the common parts of a template's pods: everything after their names."""
        priority = "" if spec.priority is None else str(spec.priority)
        common = format_labels(("scheduler", "priority"), (spec.profile_name, priority))
        return tuple(
            f"{common},{format_labels(('resource', 'unit'), (name, _unit(name)))}}}"
            f" {amount / 1000 if name == 'cpu' else amount}\n"
            for name, amount in sorted(self._amounts(spec).items())
            if amount
        )

    def reset(self) -> None:
        pass  # there is nothing to reset


def _unit(resource: str) -> str:
    if resource.startswith("hugepages-"):
        return "bytes"
    if resource.startswith("attachable-volumes-"):
        return "integer"
    return _UNITS.get(resource, "")
