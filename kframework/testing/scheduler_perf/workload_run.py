"""A simulation on real time, in which the steps of a workload run one after the other; without kubelets."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, singledispatchmethod

import anyio
from msgspec.structs import replace

from kframework.clock import Seeds
from kframework.config.configuration import Configuration
from kframework.config.duration import Duration
from kframework.core.cycle.records import Binding, Decision, Observer
from kframework.core.cycle.run import Run, RunBinding, RunObserver
from kframework.in_memory import admission
from kframework.in_memory.claim_controller import ClaimController
from kframework.in_memory.kind_store import Change
from kframework.in_memory.pod_admission import Policies
from kframework.objects import ApiObject, Node, Pod, PodGroup, PriorityClass, kind_of
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.scheduler.gc_policy import collect
from kframework.simulation.controllers import volume_controller
from kframework.simulation.running import REAL, TimeMode
from kframework.simulation.simulation import Simulation
from kframework.testing.scheduler_perf import workload_objects
from kframework.testing.scheduler_perf.definitions import (
    AllocResourceClaims,
    AnyOperation,
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePodGroups,
    CreatePods,
    CreatePodSets,
    CreateResourceClaims,
    CreateResourceDriver,
    Definition,
    DeletePods,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
    UpdateAny,
    WaitForPodGroups,
)
from kframework.testing.scheduler_perf.measurement import SAMPLE_INTERVAL, Measurement, MetricsCollector
from kframework.testing.scheduler_perf.templates import template
from kframework.testing.scheduler_perf.workload_objects import allocate

#: So long pods are waited for, in seconds; as in scheduler_perf.
POD_TIMEOUT = 600.0

#: The number of pods between two progress reports.
_PROGRESS_STEP = 50

#: How often pods that cannot be counted as they come are looked at, in seconds.
_POLL_INTERVAL = 0.1

#: Called with the number of scheduled pods, and of all.
ProgressCallback = Callable[[int, int], None]


class WorkloadRun(RunObserver, Observer):
    """Runs the steps of one workload; `measurements` is what they measured."""

    def __init__(
        self,
        definition: Definition,
        configuration: Configuration,
        report_progress: ProgressCallback,
        *,
        time: TimeMode = REAL,
    ) -> None:
        self.measurements: list[Measurement] = []
        self._definition = definition
        self._folder = definition.file.parent
        self._report_progress = report_progress
        self._seeds = Seeds(configuration.options.seed)
        self.simulation: Simulation = Simulation(
            (),
            configuration,
            observers=[self],
            controllers=[volume_controller, ClaimController],
            workload_controllers=(),
            time=time,
            max_records=0,
        )
        self._cluster = self.simulation.cluster
        self._collector: MetricsCollector | None = None
        self._pods = 0
        #: How many pods of each namespace are on nodes.
        self._scheduled: Counter[str] = Counter()
        #: How many pods a barrier has to wait for, by namespace.
        self._expected: Counter[str] = Counter()
        #: How many pods of a namespace are waited for right now, and whether they are there.
        self._awaited: dict[str, int] = {}
        self._arrived = asyncio.Event()
        self._nodes = self._on_nodes = 0

    def run(self) -> None:
        """Run the steps; KFrameworkError for one that cannot be done, or pods that are not scheduled."""
        with self.simulation:
            self._cluster.subscribe([Pod], self._changed)
            self.simulation.run_until(self._run_all(self._definition.operations()))

    async def _run_all(self, operations: Iterable[AnyOperation]) -> None:
        async with anyio.create_task_group() as self._background:
            for index, operation in enumerate(operations):
                await self._run(operation, index)
            self._background.cancel_scope.cancel()

    # -- what is seen ----------------------------------------------------------------------------------------------

    def on_decision(self, decision: Decision) -> None:
        if self._collector is not None:
            self._collector.on_decision(decision)

    def on_binding(self, binding: Binding) -> None:
        if self._collector is not None:
            self._collector.on_binding(binding)

    def on_run(self, run: Run) -> None:
        if self._collector is not None:
            self._collector.on_run(run)

    def on_run_binding(self, bound: RunBinding) -> None:
        if self._collector is not None:
            self._collector.on_run_binding(bound)

    def _changed(self, change: Change) -> None:
        arrived = 1
        if not change.binds:
            old, new = change.old, change.new
            self._pods += (old is None) - (new is None)
            arrived = _is_scheduled(new) - _is_scheduled(old)
        if not arrived:
            return
        metadata = change.subject.metadata
        self._scheduled[metadata.namespace] += arrived
        self._on_nodes += arrived
        if self._on_nodes % _PROGRESS_STEP == 0:
            self._report_progress(self._on_nodes, self._pods)
        if self._scheduled[metadata.namespace] >= self._awaited.get(metadata.namespace, math.inf):
            self._arrived.set()
        if arrived > 0 and self._collector is not None:
            self._collector.count_scheduled(metadata)

    # -- operations ------------------------------------------------------------------------------------------------

    @singledispatchmethod
    async def _run(self, operation: AnyOperation, index: int) -> None:
        raise NotImplementedError(type(operation).__name__)

    @_run.register
    async def _(self, operation: CreateNodes, index: int) -> None:
        self._cluster.load(workload_objects.make_nodes(operation, self._folder, self._nodes))
        self._nodes += operation.count

    @_run.register
    async def _(self, operation: CreateNamespaces, index: int) -> None:
        for namespace in workload_objects.make_namespaces(operation, self._folder):
            self._cluster.put(namespace)

    @_run.register
    async def _(self, operation: CreatePods, index: int) -> None:
        namespace = operation.namespace or f"namespace-{index}"
        if operation.collect_metrics:
            await self._collect("", [namespace], {})
        self._create(operation, namespace)
        if operation.skip_wait_to_completion:
            self._expected[namespace] += operation.pods
        elif operation.steady_state:
            with anyio.move_on_after(Duration.parse(operation.duration)):
                await self._recreate_pods(operation, namespace)
        else:
            await self._wait_until_scheduled(namespace, operation.pods, {})
        if operation.collect_metrics:
            self._finish_measurement()

    @_run.register
    async def _(self, operation: CreatePodSets, index: int) -> None:
        for number in range(operation.count):
            inner = replace(operation.create_pods_op, namespace=f"{operation.namespace_prefix}-{number}")
            await self._run(inner, index)

    @_run.register
    async def _(self, operation: DeletePods, index: int) -> None:
        pods = self._matching_pods(operation.namespace, operation.label_selector)
        deletions = [partial(self._delete, pod) for pod in pods]
        if operation.skip_wait_to_completion:
            self._background.start_soon(_call_at_rate, operation.delete_pods_per_second, deletions)
        else:
            await _call_at_rate(operation.delete_pods_per_second, deletions)

    @_run.register
    async def _(self, operation: Churn, index: int) -> None:
        churning = self._keep_creating if operation.mode == "create" else self._recreate
        self._background.start_soon(churning, operation, operation.namespace or f"namespace-{index}")

    @_run.register
    async def _(self, operation: Barrier, index: int) -> None:
        for namespace in operation.namespaces or sorted(self._expected):
            if operation.stage_requirement == "Attempted":
                with self._timeout(namespace, "attempted"):
                    await self._wait_until(
                        _is_attempted, namespace, self._expected[namespace], operation.label_selector
                    )
            else:
                await self._wait_until_scheduled(namespace, self._expected.pop(namespace, 0), operation.label_selector)

    @_run.register
    async def _(self, operation: Sleep, index: int) -> None:
        await asyncio.sleep(Duration.parse(operation.duration))

    @_run.register
    async def _(self, operation: CreateAny, index: int) -> None:
        described, params = template(self._folder / operation.template_path), operation.template_params
        for number in range(operation.count):
            subject = described.make(number, operation.count, params)
            self._cluster.add(_with_namespace(subject, operation.namespace))
        if isinstance(operation, CreatePodGroups):
            await self._wait_for_groups(operation.namespace, operation.count)

    @_run.register
    async def _(self, operation: WaitForPodGroups, index: int) -> None:
        await self._wait_for_groups(operation.namespace, operation.count)

    @_run.register
    async def _(self, operation: UpdateAny, index: int) -> None:
        updates = [partial(self._update, operation, number) for number in range(operation.count)]
        await _call_at_rate(operation.update_per_second, updates)

    @_run.register
    async def _(self, operation: StartCollectingMetrics, index: int) -> None:
        await self._collect(operation.name, operation.namespaces, operation.label_selector)

    @_run.register
    async def _(self, operation: StopCollectingMetrics, index: int) -> None:
        self._finish_measurement()

    @_run.register
    async def _(self, operation: CreateResourceDriver, index: int) -> None:
        self._cluster.load(workload_objects.make_slices(operation, self._cluster.objects(Node)))

    @_run.register
    async def _(self, operation: CreateResourceClaims, index: int) -> None:
        self._cluster.load(workload_objects.make_claims(operation, self._folder))

    @_run.register
    async def _(self, operation: AllocResourceClaims, index: int) -> None:
        random = self._seeds.generator(f"allocResourceClaims {index}")
        try:
            allocate(self._cluster, operation.namespace, random)
        except AllocationError as error:
            raise self._definition.error(f"allocResourceClaims: {error}") from error

    # -- pods ------------------------------------------------------------------------------------------------------

    def _create(self, operation: CreatePods, namespace: str) -> None:
        default = self._definition.case.default_pod_template_path
        for obj in workload_objects.make_pods(operation, self._folder, namespace, default):
            self._cluster.add(obj)

    async def _recreate_pods(self, operation: CreatePods, namespace: str) -> None:
        while True:
            await self._wait_until_scheduled(namespace, operation.pods, {})
            for pod in self._cluster.objects(Pod, namespace):
                self._cluster.remove(Pod, pod.metadata.name, namespace, grace=0)
            self._create(operation, namespace)

    async def _wait_until_scheduled(self, namespace: str, count: int, labels: Mapping[str, str]) -> None:
        with self._timeout(namespace, "scheduled"):
            if not labels:
                self._awaited[namespace] = count
                while self._scheduled[namespace] < count:
                    self._arrived.clear()
                    await self._arrived.wait()
                del self._awaited[namespace]
            else:
                await self._wait_until(_is_scheduled, namespace, count, labels)

    async def _wait_until(
        self, reached: Callable[[Pod], bool], namespace: str, count: int, labels: Mapping[str, str]
    ) -> None:
        while sum(map(reached, self._matching_pods(namespace, labels))) < count:  # noqa: ASYNC110 -- too many events
            await asyncio.sleep(_POLL_INTERVAL)

    @contextmanager
    def _timeout(self, namespace: str, what: str) -> Iterator[None]:
        """Wait no longer than scheduler_perf does; on a timeout name a pod that is still pending."""
        with anyio.move_on_after(POD_TIMEOUT) as scope:
            yield
        if scope.cancelled_caught:
            pending = [pod for pod in self._cluster.objects(Pod, namespace) if not pod.spec.node_name]
            which = f"at least pod {namespace}/{pending[0].metadata.name}" if pending else f"a pod of {namespace}"
            why = "".join(f": {condition.message}" for pod in pending[:1] for condition in pod.status.conditions)
            raise self._definition.error(f"{which} is not {what} after {POD_TIMEOUT:.0f} s{why}")

    def _matching_pods(self, namespace: str, labels: Mapping[str, str]) -> list[Pod]:
        pods = self._cluster.objects(Pod, namespace)
        return [pod for pod in pods if labels.items() <= pod.metadata.labels.items()]

    def _delete(self, pod: Pod) -> None:
        metadata = pod.metadata
        if self._cluster.find(Pod, metadata.name, metadata.namespace) is not None:
            self._cluster.remove(Pod, metadata.name, metadata.namespace)

    async def _wait_for_groups(self, namespace: str, count: int) -> None:
        """Wait until the scheduler knows this number of PodGroups."""
        groups = self.simulation.scheduler.engine.cluster.objects(PodGroup)
        while sum(group.metadata.namespace == namespace for group in groups) < count:  # noqa: ASYNC110 -- mostly true at once
            await asyncio.sleep(_POLL_INTERVAL)

    # -- any objects -----------------------------------------------------------------------------------------------

    async def _keep_creating(self, operation: Churn, namespace: str) -> None:
        for _ in range(operation.number) if operation.number else itertools.count():
            await asyncio.sleep(operation.interval_milliseconds / 1000)
            self._add_one_each(operation, namespace)

    async def _recreate(self, operation: Churn, namespace: str) -> None:
        """Create objects of each template in `number` intervals, delete them in the next ones, and so on."""
        objects: list[list[ApiObject]] = [[] for _ in range(operation.number)]
        for turn in itertools.cycle(range(operation.number)):
            await asyncio.sleep(operation.interval_milliseconds / 1000)
            for each in objects[turn]:
                self._cluster.remove(type(each), each.metadata.name, each.metadata.namespace)
            objects[turn] = [] if objects[turn] else self._add_one_each(operation, namespace)

    def _add_one_each(self, operation: Churn, namespace: str) -> list[ApiObject]:
        templates = (template(self._folder / path) for path in operation.template_paths)
        return [self._cluster.add(_with_namespace(each.make(0, 1), namespace)) for each in templates]

    def _update(self, operation: UpdateAny, number: int) -> None:
        """Put an object in place of the one of its name, with the status of that one unless it has one of its own."""
        described = template(self._folder / operation.template_path)
        obj = _with_namespace(described.make(number, operation.count), operation.namespace)
        cluster, metadata = self._cluster, obj.metadata
        old = cluster.read(type(obj), metadata.name, metadata.namespace)
        obj = admission.admit_create(
            obj, cluster.version + 1, cluster.timestamp(), Policies(cluster.objects(PriorityClass))
        )
        if not described.has_field("status"):
            obj = admission.keep_status(old, obj)
        cluster.replace(replace(obj, metadata=replace(obj.metadata, uid="", resource_version="")))

    # -- measuring -------------------------------------------------------------------------------------------------

    async def _collect(self, name: str, namespaces: Iterable[str], labels: Mapping[str, str]) -> None:
        if self._collector is not None:
            raise self._definition.error("metrics are collected already: stop that first")
        await self._wait_until_synced()
        collect()
        self._collector = MetricsCollector(name, namespaces, labels)
        self._background.start_soon(self._sample, self._collector)

    async def _wait_until_synced(self) -> None:
        """Wait until all is taken in that was loaded: that is no pod's cost, as where informers have synced before."""
        engine, controllers = self.simulation.scheduler.engine, self.simulation.controllers
        while len(engine.inbox) or not engine.synced or not all(each.idle for each in controllers):  # noqa: ASYNC110  # nobody would set one
            await asyncio.sleep(0)

    async def _sample(self, collector: MetricsCollector) -> None:
        while collector is self._collector:
            await asyncio.sleep(SAMPLE_INTERVAL)
            collector.sample()

    def _finish_measurement(self) -> None:
        if self._collector is None:
            raise self._definition.error("no metrics are collected: startCollectingMetrics comes first")
        self.measurements.append(self._collector.measurement())
        self._collector = None


def _is_scheduled(pod: ApiObject | None) -> bool:
    return isinstance(pod, Pod) and pod.spec.node_name != ""


def _is_attempted(pod: Pod) -> bool:
    return _is_scheduled(pod) or any(each.type == "PodScheduled" for each in pod.status.conditions)


def _with_namespace(subject: ApiObject, namespace: str) -> ApiObject:
    if not kind_of(subject).namespaced:
        return subject
    return replace(subject, metadata=replace(subject.metadata, namespace=namespace))


async def _call_at_rate(per_second: int, calls: Sequence[Callable[[], None]]) -> None:
    """Make these calls, this number a second; 0 is all at once."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number, call in enumerate(calls, 1):
        if per_second:
            await asyncio.sleep(max(0.0, began + number / per_second - loop.time()))
        call()
