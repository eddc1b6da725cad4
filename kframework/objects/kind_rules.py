"""Rules for the fields of other kinds than Pod that decide where pods run, in the words of Kubernetes' validation.

A field that is empty is not judged: files come without an API server's defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import ValidationError, convert, to_builtins

from kframework.objects.codec import without_nulls
from kframework.objects.meta import ApiObject, LabelSelector, ResourceList
from kframework.objects.node import Node
from kframework.objects.pod_group_rules import group_problems
from kframework.objects.pod_groups import CompositePodGroup, PodGroup, Workload
from kframework.objects.policies import LimitRange, LimitRangeItem, PriorityClass, RuntimeClass
from kframework.objects.problem import (
    FieldPath,
    MapKey,
    Problem,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    short_repr,
)
from kframework.objects.resource_rules import list_problems, parse
from kframework.objects.resource_slices import DeviceTaintRule, DeviceTaintSelector
from kframework.objects.scheduling_rules import (
    PREEMPTION_POLICIES,
    choice,
    labels_problems,
    negative_problems,
    node_selector_problems,
    prefix_paths,
    selector_problems,
    single_taint_problems,
    taint_problems,
    tolerations_problems,
)
from kframework.objects.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from kframework.objects.syntax import dns_label, dns_subdomain, percentage, qualified_name
from kframework.objects.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    DeploymentStrategy,
    Job,
    JobSpec,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    RollingUpdate,
    StatefulSet,
    UpdateStrategy,
    WorkloadPodTemplate,
)

#: Greater priorities are reserved for the classes of the system.
_HIGHEST_PRIORITY = 1_000_000_000
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_CLAIM_POLICIES = ("Retain", "Delete")
_DEVICE_EFFECTS = ("NoExecute", "NoSchedule", "None")

#: The kinds with rules here.
RULED_KINDS = (
    *(Node, PriorityClass, RuntimeClass, LimitRange, PodDisruptionBudget),
    *(StorageClass, PersistentVolume, PersistentVolumeClaim, CSINode, CSIStorageCapacity, DeviceTaintRule),
    *(CronJob, DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet),
    *(PodGroup, CompositePodGroup, Workload),
)

Problems = Iterator[Problem]


def object_problems(subject: ApiObject) -> Problems:
    """Yield the problems of an object that is no pod, except those of the pods in its template."""
    match subject:
        case Node(spec=spec):
            yield from prefix_paths(("spec", "taints"), taint_problems(spec.taints))
        case PriorityClass():
            yield from _priority_class_problems(subject)
        case RuntimeClass():
            yield from _runtime_class_problems(subject)
        case LimitRange(spec=limits):
            yield from prefix_paths(("spec", "limits"), _limit_problems(limits.limits))
        case StorageClass():
            yield from _storage_class_problems(subject)
        case PersistentVolume():
            yield from prefix_paths(("spec",), _volume_problems(subject))
        case PersistentVolumeClaim():
            yield from prefix_paths(("spec",), _claim_problems(subject))
        case CSINode(spec=csi_node):
            yield from prefix_paths(("spec", "drivers"), _driver_problems([each.name for each in csi_node.drivers]))
            for index, driver in enumerate(csi_node.drivers):
                if driver.allocatable is not None:
                    path = ("spec", "drivers", index, "allocatable")
                    yield from negative_problems(path, count=driver.allocatable.count)
        case CSIStorageCapacity():
            yield from prefix_paths(("nodeTopology",), selector_problems(subject.node_topology))
            yield from _name_problems(("storageClassName",), subject.storage_class_name)
        case DeviceTaintRule(spec=rule):
            yield from prefix_paths(("spec", "deviceSelector"), _device_selector_problems(rule.device_selector))
            yield from prefix_paths(("spec", "taint"), single_taint_problems(rule.taint, _DEVICE_EFFECTS))
        case PodDisruptionBudget():
            yield from prefix_paths(("spec",), _budget_problems(subject))
        case PodGroup() | CompositePodGroup() | Workload():
            yield from prefix_paths(("spec",), group_problems(subject))
        case _:
            yield from prefix_paths(("spec",), _workload_problems(subject))


def _name_problems(path: FieldPath, name: str | None) -> Problems:
    if name:
        yield from (invalid(path, name, each) for each in dns_subdomain(name))


def _priority_class_problems(priority_class: PriorityClass) -> Problems:
    name, value = priority_class.metadata.name, priority_class.value
    if name.startswith("system-"):
        if _SYSTEM_CLASSES.get(name) != value:
            message = "priority class names with 'system-' prefix are reserved for system use only"
            yield forbidden(("metadata", "name"), message)
    elif value > _HIGHEST_PRIORITY:
        yield forbidden(("value",), f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}")
    if priority_class.preemption_policy is not None:
        yield from choice(("preemptionPolicy",), priority_class.preemption_policy, PREEMPTION_POLICIES)


def _runtime_class_problems(runtime_class: RuntimeClass) -> Problems:
    handler, overhead, scheduling = runtime_class.handler, runtime_class.overhead, runtime_class.scheduling
    if not handler:
        yield required(("handler",))
    else:
        yield from (invalid(("handler",), handler, each) for each in dns_label(handler))
    if overhead is not None:
        yield from list_problems(("overhead", "limits"), overhead.pod_fixed)
    if scheduling is not None:
        yield from labels_problems(("scheduling", "nodeSelector"), scheduling.node_selector)
        path = ("scheduling", "tolerations")
        yield from tolerations_problems(path, scheduling.tolerations)
        keys = [(each.key, each.operator, each.value, each.effect) for each in scheduling.tolerations]
        for index, toleration in enumerate(scheduling.tolerations):
            if keys[index] in keys[:index]:
                yield duplicate((*path, index), to_builtins(toleration))


# --- limit ranges -----------------------------------------------------------------------------------------------------

_LIMIT_TYPES = ("Container", "Pod", "PersistentVolumeClaim")


def _limit_problems(items: Sequence[LimitRangeItem]) -> Problems:
    for index, item in enumerate(items):
        yield from prefix_paths((index,), _limit_item_problems(item))
        if item.type in [each.type for each in items[:index]]:
            yield duplicate((index, "type"), item.type)


def _limit_item_problems(item: LimitRangeItem) -> Problems:
    if qualified_name(item.type):
        yield from (invalid(("type",), item.type, each) for each in qualified_name(item.type))
    elif "/" not in item.type and item.type not in _LIMIT_TYPES:
        yield invalid(("type",), item.type, "must be a standard limit type or fully qualified")
    lists = {"max": item.max, "min": item.min, "default": item.default, "defaultRequest": item.default_request}
    if item.type == "Pod":
        for field in ("default", "defaultRequest"):
            if lists.pop(field):
                yield forbidden((field,), "may not be specified when `type` is 'Pod'")
    if item.type == "PersistentVolumeClaim" and "storage" not in {**item.min, **item.max}:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield required(("limits",), detail)
    for name in dict.fromkeys(name for resources in lists.values() for name in resources):
        yield from _order_problems(name, lists)
    for name, quantity in item.max_limit_request_ratio.items():
        ratio = parse(quantity)
        if ratio is not None and ratio.nano < 1_000_000_000:
            yield invalid(("maxLimitRequestRatio", MapKey(name)), str(ratio), f"ratio {ratio} is less than 1")


#: Pairs of fields, each with its noun: the first must not exceed the second. Then the field at fault, and the field
#: whose quantity Kubernetes shows.
_ORDER = (
    ("min", "min value", "max", "max value", "min", "min"),
    ("min", "min value", "defaultRequest", "default request value", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default request value", "max", "max value", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default request value", "default", "default limit value", "defaultRequest", "defaultRequest"),
    ("min", "min value", "default", "default value", "default", "min"),
    ("default", "default value", "max", "max value", "default", "max"),
)


def _order_problems(name: str, lists: Mapping[str, ResourceList]) -> Problems:
    amounts = {field: parse(resources.get(name)) for field, resources in lists.items()}
    for lower_field, lower_noun, upper_field, upper_noun, at_fault, given in _ORDER:
        lower, upper = amounts.get(lower_field), amounts.get(upper_field)
        if lower is not None and upper is not None and lower.nano > upper.nano:
            detail = f"{lower_noun} {lower} is greater than {upper_noun} {upper}"
            yield invalid((at_fault, MapKey(name)), str(amounts[given]), detail)


# --- storage ----------------------------------------------------------------------------------------------------------


def _storage_class_problems(storage_class: StorageClass) -> Problems:
    provisioner = storage_class.provisioner
    if provisioner:
        yield from (invalid(("provisioner",), provisioner, each) for each in qualified_name(provisioner.lower()))
    if storage_class.reclaim_policy:
        yield from choice(("reclaimPolicy",), storage_class.reclaim_policy, ("Delete", "Retain"))
    if (mode := storage_class.volume_binding_mode) is not None:
        if mode not in ("Immediate", "WaitForFirstConsumer"):
            yield not_supported(("volumeBindingMode",), mode, ("Immediate", "WaitForFirstConsumer"))
    for index, term in enumerate(storage_class.allowed_topologies):
        yield from prefix_paths(("allowedTopologies", index, "matchLabelExpressions"), _topology_problems(term))


def _topology_problems(term: TopologySelectorTerm) -> Problems:
    keys = [each.key for each in term.match_label_expressions]
    for index, each in enumerate(term.match_label_expressions):
        if not each.values:
            yield required((index, "values"))
        for number, value in enumerate(each.values):
            if value in each.values[:number]:
                yield duplicate((index, "values", number), value)
        yield from (invalid((index, "key"), each.key, message) for message in qualified_name(each.key))
        if each.key in keys[:index]:
            yield duplicate((index, "key"), each.key)


def _access_mode_problems(modes: Sequence[str]) -> Problems:
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield not_supported(("accessModes",), mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode in _ACCESS_MODES[:-1] for mode in modes):
        yield forbidden(("accessModes",), "may not use ReadWriteOncePod with other access modes")


def _volume_problems(volume: PersistentVolume) -> Problems:
    spec = volume.spec
    yield from _access_mode_problems(spec.access_modes)
    if spec.persistent_volume_reclaim_policy:
        yield from choice(("persistentVolumeReclaimPolicy",), spec.persistent_volume_reclaim_policy, _RECLAIM_POLICIES)
    if spec.volume_mode is not None:
        yield from choice(("volumeMode",), spec.volume_mode, _VOLUME_MODES)
    yield from _name_problems(("storageClassName",), spec.storage_class_name)
    if spec.node_affinity is not None:
        path = ("nodeAffinity", "required")
        if spec.node_affinity.required is None:
            yield required(path, "must specify required node constraints")
        else:
            yield from node_selector_problems(path, spec.node_affinity.required)


def _claim_problems(claim: PersistentVolumeClaim) -> Problems:
    spec = claim.spec
    yield from _access_mode_problems(spec.access_modes)
    yield from prefix_paths(("selector",), selector_problems(spec.selector))
    size = parse(spec.resources.requests.get("storage"))
    if size is not None and size.nano <= 0:
        yield invalid(("resources", MapKey("storage")), str(size), "must be greater than zero")
    yield from _name_problems(("storageClassName",), spec.storage_class_name)
    if spec.volume_mode is not None:
        yield from choice(("volumeMode",), spec.volume_mode, _VOLUME_MODES)


def _driver_problems(names: Sequence[str]) -> Problems:
    for index, name in enumerate(names):
        yield from _driver_name_problems((index, "name"), name)
        if name in names[:index]:
            yield duplicate((index, "name"), name)


def _driver_name_problems(path: FieldPath, name: str) -> Problems:
    if not name:
        yield required(path)
    else:
        yield from (invalid(path, name, each) for each in dns_subdomain(name.lower()))


def _device_selector_problems(selector: DeviceTaintSelector | None) -> Problems:
    if selector is None:
        return
    if selector.driver is not None:
        yield from _driver_name_problems(("driver",), selector.driver)
    if selector.pool == "":
        yield required(("pool",))
    elif selector.pool is not None:
        for part in selector.pool.split("/"):
            yield from (invalid(("pool",), part, each) for each in dns_subdomain(part))
    if selector.device is not None:
        yield from (invalid(("device",), selector.device, each) for each in dns_label(selector.device))


# --- workloads --------------------------------------------------------------------------------------------------------


def _budget_problems(budget: PodDisruptionBudget) -> Problems:
    spec = budget.spec
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield invalid((), to_builtins(spec), "minAvailable and maxUnavailable cannot be both set")
    for field, share in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        yield from _share_problems((field,), share)
        yield from _excess_problems((field,), share)
    yield from prefix_paths(("selector",), selector_problems(spec.selector))
    if spec.unhealthy_pod_eviction_policy is not None:
        supported = ("AlwaysAllow", "IfHealthyBudget")
        if spec.unhealthy_pod_eviction_policy not in supported:
            yield not_supported(("unhealthyPodEvictionPolicy",), spec.unhealthy_pod_eviction_policy, supported)


def _share_problems(path: FieldPath, share: int | str | None) -> Problems:
    if isinstance(share, str):
        yield from (invalid(path, share, each) for each in percentage(share))
    elif share is not None and share < 0:
        yield invalid(path, share, "must be greater than or equal to 0")


def _excess_problems(path: FieldPath, share: int | str | None) -> Problems:
    if isinstance(share, str) and not percentage(share) and int(share[:-1]) > 100:
        yield invalid(path, share, "must not be greater than 100%")


def _workload_problems(subject: ApiObject) -> Problems:
    match subject:
        case Deployment(spec=spec):
            yield from negative_problems(
                (),
                replicas=spec.replicas,
                minReadySeconds=spec.min_ready_seconds,
                revisionHistoryLimit=spec.revision_history_limit,
                progressDeadlineSeconds=spec.progress_deadline_seconds,
            )
            if spec.progress_deadline_seconds is not None and spec.progress_deadline_seconds <= spec.min_ready_seconds:
                detail = "must be greater than minReadySeconds"
                yield invalid(("progressDeadlineSeconds",), spec.progress_deadline_seconds, detail)
            yield from _strategy_problems(("strategy",), spec.strategy, ("Recreate", "RollingUpdate"))
            if spec.strategy.type == "Recreate" and spec.strategy.rolling_update is not None:
                detail = "may not be specified when strategy `type` is 'Recreate'"
                yield forbidden(("strategy", "rollingUpdate"), detail)
            elif spec.strategy.rolling_update is not None:
                yield from prefix_paths(("strategy", "rollingUpdate"), _rollout_problems(spec.strategy.rolling_update))
            yield from _selector_and_template_problems("ReplicaSet", spec.selector, spec.template)
        case ReplicaSet(spec=replica_set):
            yield from negative_problems(
                (), replicas=replica_set.replicas, minReadySeconds=replica_set.min_ready_seconds
            )
            yield from _selector_and_template_problems("ReplicaSet", replica_set.selector, replica_set.template)
        case ReplicationController(spec=controller):
            yield from negative_problems((), replicas=controller.replicas, minReadySeconds=controller.min_ready_seconds)
            yield from _template_problems("ReplicationController", controller.template)
        case StatefulSet():
            yield from _stateful_set_problems(subject)
        case DaemonSet(spec=daemon_set):
            yield from negative_problems(
                (),
                minReadySeconds=daemon_set.min_ready_seconds,
                revisionHistoryLimit=daemon_set.revision_history_limit,
            )
            strategy = daemon_set.update_strategy
            yield from _strategy_problems(("updateStrategy",), strategy, ("RollingUpdate", "OnDelete"))
            if strategy.type != "OnDelete" and strategy.rolling_update is not None:
                path = ("updateStrategy", "rollingUpdate")
                yield from prefix_paths(path, _daemon_rollout_problems(strategy.rolling_update))
            yield from _selector_and_template_problems("DaemonSet", daemon_set.selector, daemon_set.template)
        case Job(spec=job):
            yield from job_problems(job)
        case CronJob(spec=cron):
            yield from negative_problems(
                (),
                startingDeadlineSeconds=cron.starting_deadline_seconds,
                successfulJobsHistoryLimit=cron.successful_jobs_history_limit,
                failedJobsHistoryLimit=cron.failed_jobs_history_limit,
            )
            if cron.concurrency_policy:
                yield from choice(("concurrencyPolicy",), cron.concurrency_policy, ("Allow", "Forbid", "Replace"))
            try:
                cron_job = convert(without_nulls(cron.job_template.spec), JobSpec)
            except ValidationError:
                return  # where the template is decoded, that is reported
            yield from prefix_paths(("jobTemplate", "spec"), job_problems(cron_job))


def _strategy_problems(
    path: FieldPath, strategy: DeploymentStrategy | UpdateStrategy, supported: Sequence[str]
) -> Problems:
    if strategy.type and strategy.type not in supported:
        names = ", ".join(map(short_repr, supported))
        yield Problem(path, f"Unsupported value: {short_repr(to_builtins(strategy))}: supported values: {names}")


def _rollout_problems(rolling: RollingUpdate) -> Problems:
    surge, unavailable = rolling.max_surge, rolling.max_unavailable
    yield from _share_problems(("maxUnavailable",), unavailable)
    yield from _share_problems(("maxSurge",), surge)
    if {surge, unavailable} <= {0, "0%"}:
        yield invalid(("maxUnavailable",), unavailable, "may not be 0 when `maxSurge` is 0")
    yield from _excess_problems(("maxUnavailable",), unavailable)


def _daemon_rollout_problems(rolling: RollingUpdate) -> Problems:
    # By default one pod may be unavailable, and none is too many.
    surge = 0 if rolling.max_surge is None else rolling.max_surge
    unavailable = (0 if rolling.max_surge else 1) if rolling.max_unavailable is None else rolling.max_unavailable
    for field, share in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        yield from _share_problems((field,), share)
        yield from _excess_problems((field,), share)
    zeros = [share in (0, "0%") for share in (surge, unavailable)]
    if not any(zeros):
        yield invalid(("maxSurge",), surge, "may not be set when maxUnavailable is non-zero")
    elif all(zeros):
        yield required(("maxUnavailable",), "cannot be 0 when maxSurge is 0")


def _stateful_set_problems(stateful_set: StatefulSet) -> Problems:
    spec = stateful_set.spec
    yield from negative_problems((), replicas=spec.replicas, minReadySeconds=spec.min_ready_seconds)
    yield from negative_problems((), revisionHistoryLimit=spec.revision_history_limit)
    if spec.ordinals is not None:
        yield from negative_problems(("ordinals",), start=spec.ordinals.start)
    if spec.pod_management_policy not in ("", "OrderedReady", "Parallel"):
        yield invalid(("podManagementPolicy",), spec.pod_management_policy, "must be 'OrderedReady' or 'Parallel'")
    strategy, path = spec.update_strategy, ("updateStrategy", "rollingUpdate")
    if strategy.type not in ("", "RollingUpdate", "OnDelete"):
        yield invalid(("updateStrategy",), to_builtins(strategy), "must be 'RollingUpdate' or 'OnDelete'")
    elif strategy.rolling_update is not None:
        if strategy.type == "OnDelete":
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            yield invalid(path, to_builtins(strategy.rolling_update), detail)
        else:
            yield from negative_problems(path, partition=strategy.rolling_update.partition)
            unavailable = strategy.rolling_update.max_unavailable
            yield from _share_problems((*path, "maxUnavailable"), unavailable)
            if unavailable in (0, "0%"):
                yield invalid((*path, "maxUnavailable"), unavailable, "cannot be 0")
            yield from _excess_problems((*path, "maxUnavailable"), unavailable)
    if (policy := spec.persistent_volume_claim_retention_policy) is not None:
        for field, value in (("whenDeleted", policy.when_deleted), ("whenScaled", policy.when_scaled)):
            if value and value not in _CLAIM_POLICIES:
                yield not_supported(("persistentVolumeClaimRetentionPolicy", field), value, _CLAIM_POLICIES)
    yield from _selector_and_template_problems("StatefulSet", spec.selector, spec.template)


def _selector_and_template_problems(
    kind: str, selector: LabelSelector | None, template: WorkloadPodTemplate
) -> Problems:
    yield from prefix_paths(("selector",), selector_problems(selector))
    yield from _template_problems(kind, template)


def _template_problems(kind: str, template: WorkloadPodTemplate) -> Problems:
    path = ("template", "spec")
    policy = template.spec.get("restartPolicy")
    if policy in ("OnFailure", "Never"):
        yield not_supported((*path, "restartPolicy"), str(policy), ("Always",))
    if template.spec.get("activeDeadlineSeconds") is not None:
        yield forbidden((*path, "activeDeadlineSeconds"), f"activeDeadlineSeconds in {kind} is not Supported")


def job_problems(spec: JobSpec) -> Problems:
    yield from negative_problems(
        (),
        parallelism=spec.parallelism,
        completions=spec.completions,
        activeDeadlineSeconds=spec.active_deadline_seconds,
        backoffLimit=spec.backoff_limit,
        ttlSecondsAfterFinished=spec.ttl_seconds_after_finished,
        backoffLimitPerIndex=spec.backoff_limit_per_index,
        maxFailedIndexes=spec.max_failed_indexes,
    )
    if spec.completion_mode:
        yield from choice(("completionMode",), spec.completion_mode, ("NonIndexed", "Indexed"))
    if spec.completion_mode == "Indexed":
        if spec.completions is None:
            yield required(("completions",), "when completion mode is Indexed")
    else:
        for field, number in (
            ("backoffLimitPerIndex", spec.backoff_limit_per_index),
            ("maxFailedIndexes", spec.max_failed_indexes),
        ):
            if number is not None:
                yield invalid((field,), number, "requires indexed completion mode")
    if spec.template.spec.get("restartPolicy") == "Always":
        yield required(("template", "spec", "restartPolicy"), 'valid values: "OnFailure", "Never"')
