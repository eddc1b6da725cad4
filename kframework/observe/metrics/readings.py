"""What an engine's queue and cache hold, read off when somebody asks: nothing is kept twice."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from kframework import __version__
from kframework.core.pod_engine import PodEngine
from kframework.observe.metrics import families
from kframework.observe.metrics.series import Readings, Series

#: The release of Kubernetes whose scheduler is followed.
_FOLLOWED = ("1", "36", "v1.36.2")

#: What Go calls the processors that Python names otherwise.
_GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def engine_readings(engine: PodEngine) -> tuple[Series, ...]:
    """Return the series that an engine's state answers for."""
    queue, cluster = engine.queue, engine.cluster

    def pending_pods() -> Mapping[tuple[str, ...], int]:
        return {(name,): count for name, count in queue.pending().items()}

    def unschedulable_pods() -> Mapping[tuple[str, ...], int]:
        return {(plugin, profile): count for (profile, plugin), count in queue.holders().items()}

    def inflight_events() -> Mapping[tuple[str, ...], int]:
        in_flight = queue.in_flight
        return {("PodPopped",): len(in_flight), **{(label,): count for label, count in in_flight.kept.items()}}

    def cache_size() -> Mapping[tuple[str, ...], int]:
        return {
            ("nodes",): len(cluster.nodes),
            ("pods",): len(cluster.pods),
            ("assumed_pods",): len(cluster.assumed),
        }

    return (
        Readings(families.PENDING_PODS, pending_pods),
        Readings(families.QUEUE_INCOMING_PODS, lambda: queue.incoming),
        Readings(families.UNSCHEDULABLE_PODS, unschedulable_pods),
        Readings(families.INFLIGHT_EVENTS, inflight_events),
        Readings(families.CACHE_SIZE, cache_size),
        Readings(families.GOROUTINES, lambda: {("binding",): len(cluster.waiting)}),
    )


def build_info() -> Series:
    """Return what says which versions run."""
    system, machine = platform.system().lower(), platform.machine()
    major, minor, version = _FOLLOWED
    labels = (
        major,
        minor,
        f"{version}+kframework.{__version__}",
        "",
        "",
        "",
        "",
        f"{platform.python_implementation().lower()}-{platform.python_version()}",
        f"{system}/{_GO_MACHINES.get(machine, machine)}",
    )
    return Readings(families.BUILD_INFO, lambda: {labels: 1})
