"""All metrics of one process: of records, engine, requests and health checks; times of events and hints; devices."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter_ns

from kframework._version import __version__
from kframework.core.event_handlers import EventHandlers
from kframework.core.pod_engine import PodEngine
from kframework.core.preemption.evaluator import PreemptionObserver
from kframework.core.queue.pool import PluginKey
from kframework.core.queue.scheduling_queue import QueuePolicy
from kframework.core.runtime.profiles import Profiles
from kframework.framework.events import ActionType, EventResource, ObservedEvent, pod_updates
from kframework.objects import ApiObject, Pod, ResourceClaim, kind_of
from kframework.observe.history import Reload
from kframework.observe.metrics import families
from kframework.observe.metrics.attempts import AttemptMetrics
from kframework.observe.metrics.engine_metrics import engine_series
from kframework.observe.metrics.families import event_label
from kframework.observe.metrics.requests import RequestMetrics
from kframework.observe.metrics.series import (
    NANOSECONDS,
    CounterSeries,
    HistogramSeries,
    ScrapedSeries,
    Series,
    as_labels,
)
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.binding_conditions import devices_with_conditions
from kframework.plugins.dynamic_resources.errors import WaitResult
from kframework.plugins.dynamic_resources.writes import CreationResult, DeviceObserver
from kframework.state.inbox import Deleted, Inbox, Upserted
from kframework.state.pods import PendingPod, PodInfo, QueuedPod
from kframework.values.feature_gates import LATEST_MINOR, RELEASES, FeatureGates
from kframework.values.status import Code, Status

#: The name of the scheduler's informers in kube-scheduler.
_INFORMER = "kube-scheduler"

#: Go's names of processors that Python names differently.
_GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class Metrics:
    """The metrics of one process: `attempts` observes its scheduler, the others are updated by their callers."""

    def __init__(self) -> None:
        self.attempts: AttemptMetrics = AttemptMetrics()
        self.devices: DeviceMetrics = DeviceMetrics()
        self.preemptions: PreemptionMetrics = PreemptionMetrics()
        #: The durations of handling events, and of calling queueing hints.
        self.handling: HistogramSeries[str] = HistogramSeries(
            families.EVENT_HANDLING_DURATION, lambda label: (event_label(label, self._minor),), scale=NANOSECONDS
        )
        self.hints: HistogramSeries[tuple[str, str, bool]] = HistogramSeries(
            families.QUEUEING_HINT_EXECUTION_DURATION,
            lambda key: (key[0], event_label(key[1], self._minor), "Queue" if key[2] else "QueueSkip"),
            scale=NANOSECONDS,
        )
        self.informers: InformerMetrics = InformerMetrics()
        self.requests: RequestMetrics = RequestMetrics()
        self.health: HealthMetrics = HealthMetrics()
        self.reloads: ReloadMetrics = ReloadMetrics()
        #: Counted in the watchdog's thread; readers copy it at once.
        self.slow_hooks: dict[tuple[str, ...], int] = {}
        self._minor = LATEST_MINOR

    @property
    def series(self) -> tuple[Series, ...]:
        return (
            *self.attempts.series,
            *self.devices.series,
            *self.preemptions.series,
            *self.requests.series,
            *self.reloads.series,
            ScrapedSeries(families.SLOW_HOOKS, self.slow_hooks.copy),
        )

    def count_slow_hook(self, plugin: str, hook: str) -> None:
        self.slow_hooks[plugin, hook] = self.slow_hooks.get((plugin, hook), 0) + 1

    def attach(self, engine: PodEngine) -> tuple[Series, ...]:
        """Begin to count in an engine that has not started yet; return all series of `/metrics`."""
        self._minor = engine.cluster.feature_gates.minor
        self.devices.attach(engine.profiles)
        if engine.cluster.feature_gates.has_pod_groups:
            engine.preemption.observer = self.preemptions
        engine.queue.policy = _TimedPolicy(engine.queue.policy, self.hints, self.attempts)
        engine.handlers = _TimedHandlers(engine, self.handling, self.informers)
        informers = (*self.informers.series, self.informers.queued_items(engine.inbox))
        return (*self.series, self.handling, self.hints, *informers, *engine_series(engine))


class ReloadMetrics:
    """Counts the changes of the configuration file, and keeps what came of the last one."""

    def __init__(self) -> None:
        self.counts: CounterSeries[tuple[str]] = CounterSeries(families.RELOADS, as_labels)
        self._taken_at: dict[tuple[str, ...], float] = {}
        self._last: dict[tuple[str, ...], int] = {}
        #: All that is counted here.
        self.series: tuple[Series, ...] = (
            self.counts,
            ScrapedSeries(families.LAST_RELOAD_SUCCESSFUL, lambda: self._last),
            ScrapedSeries(families.LAST_RELOAD_TIME, lambda: self._taken_at),
        )

    def count_reload(self, reload: Reload) -> None:
        self._last[()] = int(not reload.problem)
        self.counts["refused" if reload.problem else "taken",] += 1
        if not reload.problem:
            self._taken_at[()] = reload.at


class HealthMetrics:
    """Counts the results of health checks, and keeps the last of each, as `/metrics/slis` shows it."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], int] = {}
        self._counts = CounterSeries(families.HEALTHCHECKS, as_labels)
        #: All that is counted here.
        self.series: tuple[Series, ...] = (ScrapedSeries(families.HEALTHCHECK, lambda: self._last), self._counts)

    def count_check(self, endpoint: str, check: str, problem: str | None) -> None:
        """Count a check that was requested at an endpoint: `livez`, `readyz`, `healthz`."""
        self._last[check, endpoint] = int(problem is None)
        self._counts[check, endpoint, "success" if problem is None else "error"] += 1


def build_info(minor: str) -> Series:
    system, machine = platform.system().lower(), platform.machine()
    compiler = f"{platform.python_implementation().lower()}-{platform.python_version()}"
    of_go = ("", "", "", "")  # the commit, its tree, the date of the build, and the version of Go
    release = (*minor.split("."), f"{RELEASES[minor]}+kframework.{__version__}")
    labels = (*release, *of_go, compiler, f"{system}/{_GO_MACHINES.get(machine, machine)}")
    return ScrapedSeries(families.BUILD_INFO, lambda: {labels: 1})


def enabled_features(gates: FeatureGates) -> Series:
    values = {(name, "" if stage == "GA" else stage.upper()): int(is_on) for name, stage, is_on in gates.features()}
    return ScrapedSeries(families.FEATURE_ENABLED, lambda: values)


class InformerMetrics:
    """Metrics of the changes of each resource, named as those of client-go's informers; keys are structs."""

    def __init__(self) -> None:
        self.latency: HistogramSeries[type[ApiObject]] = HistogramSeries(
            families.INFORMER_PROCESSING_LATENCY, _informer_labels, scale=NANOSECONDS
        )
        #: The resource version of the last applied change.
        self.versions: dict[type[ApiObject], str] = {}
        #: All that is counted here.
        self.series: tuple[Series, ...] = (
            self.latency,
            ScrapedSeries(families.INFORMER_STORE_RESOURCE_VERSION, self._read_versions),
        )

    def observe(self, obj: ApiObject, took: int) -> None:
        """Observe that the change of an object was applied, in nanoseconds."""
        struct = type(obj)
        self.latency[struct].observe(took)
        self.versions[struct] = obj.metadata.resource_version

    def queued_items(self, inbox: Inbox) -> Series:
        def read() -> dict[tuple[str, ...], int]:
            waiting = Counter(type(message.obj) for message in inbox if isinstance(message, Upserted | Deleted))
            return {_informer_labels(struct): waiting[struct] for struct in (*self.versions, *waiting)}

        return ScrapedSeries(families.INFORMER_QUEUED_ITEMS, read)

    def _read_versions(self) -> dict[tuple[str, ...], int]:
        return {
            _informer_labels(struct): int(version[-15:])
            for struct, version in self.versions.items()
            if version.isdecimal()
        }


def _informer_labels(struct: type[ApiObject]) -> tuple[str, ...]:
    kind = kind_of(struct)
    group, _, version = kind.api_version.rpartition("/")
    return _INFORMER, group, version, kind.plural


class DeviceMetrics:
    """The counts of kube-scheduler's metrics about claims."""

    def __init__(self) -> None:
        self.created: CounterSeries[tuple[str]] = CounterSeries(families.SCHEDULER_RESOURCECLAIM_CREATES, as_labels)
        created = ScrapedSeries(
            families.RESOURCECLAIM_CREATES, lambda: {(*key, "", "Pod"): count for key, count in self.created.items()}
        )
        self.allocations: CounterSeries[tuple[str, str, str]] = CounterSeries(
            families.DRA_BINDINGCONDITIONS_ALLOCATIONS, as_labels
        )
        self.waits: HistogramSeries[tuple[str, str, str]] = HistogramSeries(
            families.DRA_BINDINGCONDITIONS_WAIT_DURATION, as_labels, scale=NANOSECONDS
        )
        #: All that is counted here.
        self.series: tuple[Series, ...] = (self.created, created, self.allocations, self.waits)

    def attach(self, profiles: Profiles) -> None:
        from kframework.plugins.dynamic_resources.plugin import DynamicResources

        for profile, plugin in profiles.plugins():
            if isinstance(plugin, DynamicResources):
                plugin.set_observer(_ProfileDeviceObserver(self, profile.name))


class _ProfileDeviceObserver(DeviceObserver):
    def __init__(self, counts: DeviceMetrics, profile: str) -> None:
        self._counts = counts
        self._profile = profile

    def on_creation(self, result: CreationResult) -> None:
        self._counts.created[result,] += 1

    def on_wait_end(self, claims: Sequence[ResourceClaim], result: WaitResult, seconds: float) -> None:
        for claim in claims:
            for device in devices_with_conditions(claim):
                self._counts.allocations[self._profile, device.driver, result] += 1
            for device in results_of(claim):
                self._counts.waits[self._profile, device.driver, result].observe(round(seconds * NANOSECONDS))


class PreemptionMetrics(PreemptionObserver):
    """Keeps the metrics of preemption up to date that kube-scheduler has with the gate GenericWorkload."""

    def __init__(self) -> None:
        self._attempts: CounterSeries[Code] = CounterSeries(
            families.WORKLOAD_PREEMPTION_ATTEMPTS, lambda code: (code.title,)
        )
        self._victims: HistogramSeries[tuple[()]] = HistogramSeries(families.WORKLOAD_PREEMPTION_VICTIMS, as_labels)
        self._disruptions: HistogramSeries[tuple[str]] = HistogramSeries(
            families.PREEMPTION_WORKLOAD_DISRUPTIONS, as_labels
        )
        self._evaluations: HistogramSeries[tuple[str, Code]] = HistogramSeries(
            families.PREEMPTION_EVALUATION_DURATION, lambda key: (key[0], key[1].title), scale=NANOSECONDS
        )
        self._executions: HistogramSeries[tuple[str, str]] = HistogramSeries(
            families.PREEMPTION_EXECUTION_DURATION, as_labels, scale=NANOSECONDS
        )
        self._violations: CounterSeries[tuple[str]] = CounterSeries(families.PREEMPTION_PDB_VIOLATIONS, as_labels)
        #: All that is counted here: the attributes above.
        self.series: tuple[Series, ...] = tuple(vars(self).values())

    def on_evaluation(self, preemptor: str, code: Code, took: int) -> None:
        self._evaluations[preemptor, code].observe(took)

    def on_group_attempt(self, code: Code) -> None:
        self._attempts[code] += 1

    def on_eviction(self, preemptor: str, victims: int, groups: int, violations: int) -> None:
        if preemptor != "pod":  # those of pods are counted with their attempts
            self._victims[()].observe(victims)
        if groups:
            self._disruptions[preemptor,].observe(groups)
        if violations:
            self._violations[preemptor,] += violations

    def on_execution(self, preemptor: str, took: int, *, failed: bool) -> None:
        self._executions[preemptor, "error" if failed else "success"].observe(took)


class _TimedHandlers(EventHandlers):
    """Event handlers that observe how long each took, under the labels that kube-scheduler has for the change."""

    def __init__(self, engine: PodEngine, times: HistogramSeries[str], informers: InformerMetrics) -> None:
        super().__init__(engine.cluster, engine.queue, engine.profiles)
        self._times = times
        self._informers = informers
        #: The events of an object that is no pod, while they are handled.
        self._labels: list[str] | None = None

    def upsert(self, obj: ApiObject) -> None:
        if isinstance(obj, Pod):
            self._time_pod(super().upsert, obj)
        else:
            self._time_other(super().upsert, obj)

    def confirm_binding(self, pod: Pod, version: str) -> None:
        self._time_pod(super().confirm_binding, pod, version)

    def update_status(self, pod: Pod) -> None:
        self._time_pod(super().update_status, pod)

    def delete(self, obj: ApiObject) -> None:
        if not isinstance(obj, Pod):
            self._time_other(super().delete, obj)
            return
        is_own = obj.spec.node_name or obj.metadata.uid in self.pending
        labels = [_ASSIGNED_DELETED if obj.spec.node_name else _DELETED] if is_own else []
        start = perf_counter_ns()
        super().delete(obj)
        self._observe(obj, perf_counter_ns() - start, labels)

    def on_event(self, event: ObservedEvent, only: Callable[[PendingPod], bool] | None = None) -> None:
        if self._labels is not None:
            self._labels.append(event.label)
        super().on_event(event, only)

    def _time_other(self, handle: Callable[[ApiObject], None], obj: ApiObject) -> None:
        labels: list[str] = []
        self._labels = labels
        start = perf_counter_ns()
        handle(obj)
        self._observe(obj, perf_counter_ns() - start, labels)
        self._labels = None

    def _time_pod(self, handle: Callable[..., None], pod: Pod, *version: str) -> None:
        """Time the change of a pod; the events that it is to other pods have no labels."""
        uid = pod.metadata.uid
        assigned = None if uid in self.cluster.assumed else self.cluster.pods.get(uid)
        waiting = self.pending.get(uid)
        start = perf_counter_ns()
        handle(pod, *version)
        took = perf_counter_ns() - start
        labels: Iterable[str]
        if pod.spec.node_name:
            labels = self._assigned_labels(uid, assigned, waiting)
        else:
            labels = _waiting_labels(waiting, self.pending.get(uid))
        self._observe(pod, took, labels)

    def _assigned_labels(self, uid: str, old: PodInfo | None, waiting: PendingPod | None) -> Iterator[str]:
        if old is None:
            yield _ASSIGNED_ADDED
            if waiting is not None:
                yield _DELETED
        else:
            yield _ASSIGNED_UPDATED
            for action in pod_updates(old, self.cluster.pods[uid]):  # a general update counts twice, as there
                yield ObservedEvent(EventResource.ASSIGNED_POD, action).label

    def _observe(self, obj: ApiObject, took: int, labels: Iterable[str]) -> None:
        self._informers.observe(obj, took)
        for label in labels:
            self._times[label].observe(took)


def _waiting_labels(old: PendingPod | None, new: PendingPod | None) -> Sequence[str]:
    if new is None or new is old:
        return ()
    if old is None:
        return (_ADDED,)
    actions = (action for action in pod_updates(old, new) if action is not ActionType.UPDATE)
    return [_UPDATED, *(ObservedEvent(EventResource.TARGET_POD, action).label for action in actions)]


class _TimedPolicy(QueuePolicy):
    """A queue policy that times the calls of plugins."""

    def __init__(
        self, policy: QueuePolicy, hints: HistogramSeries[tuple[str, str, bool]], attempts: AttemptMetrics
    ) -> None:
        self._policy = policy
        self._hints = hints
        self._observe_pre_enqueue = attempts.observe_pre_enqueue

    def run_pre_enqueue(self, pod: PendingPod) -> Status | None:
        start = perf_counter_ns()
        status = self._policy.run_pre_enqueue(pod)
        self._observe_pre_enqueue(
            perf_counter_ns() - start, Code.SUCCESS if status is None else status.code, pod.scheduler_name
        )
        return status

    def is_worth_requeuing(self, event: ObservedEvent, pod: PendingPod, plugin: str) -> bool:
        start = perf_counter_ns()
        wakes = self._policy.is_worth_requeuing(event, pod, plugin)
        self._hints[plugin, event.label, wakes].observe(perf_counter_ns() - start)
        return wakes

    def sort_key(self, queued: QueuedPod) -> Hashable:
        return self._policy.sort_key(queued)

    def on_incomparable_keys(self, error: Exception) -> None:
        self._policy.on_incomparable_keys(error)

    def registered_for(self, event: ObservedEvent) -> Mapping[PluginKey, Collection[str] | None]:
        return self._policy.registered_for(event)


_ADDED = ObservedEvent(EventResource.UNSCHEDULED_POD, ActionType.ADD).label
_UPDATED = ObservedEvent(EventResource.TARGET_POD, ActionType.UPDATE).label
_DELETED = ObservedEvent(EventResource.UNSCHEDULED_POD, ActionType.DELETE).label
_ASSIGNED_ADDED = ObservedEvent(EventResource.ASSIGNED_POD, ActionType.ADD).label
_ASSIGNED_UPDATED = ObservedEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE).label
_ASSIGNED_DELETED = ObservedEvent(EventResource.ASSIGNED_POD, ActionType.DELETE).label
