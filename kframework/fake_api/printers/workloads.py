"""Tables of workloads and pods: counts, and the status column of pods."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from kframework.clock import seconds_of
from kframework.fake_api.printers.layouts import CellReader, format_age, format_duration, format_elapsed, lay_out
from kframework.fake_api.wire.documents import Data
from kframework.objects import LabelSelector
from kframework.objects.label_selectors import label_selector
from kframework.objects.plain_data import entries, flag, mapping, name, number, text, value


def pod_cells(pod: Data, now: float) -> tuple[str, ...]:
    """Return the cells Name, Ready, Status, Restarts, Age, IP, Node, Nominated Node and Readiness Gates."""
    sidecars = {
        text(each, "name") for each in entries(pod, "spec.initContainers") if text(each, "restartPolicy") == "Always"
    }
    total = len(entries(pod, "spec.containers")) + len(sidecars)
    started, init_status = _initialization(pod, sidecars)
    ready = sum(_is_ready_sidecar(status, sidecars) for status in started)
    if init_status and _condition(pod, "Initialized") != "True":
        statuses, state = started, init_status
    else:
        running = entries(pod, "status.containerStatuses")
        statuses = [status for status in started if text(status, "name") in sidecars] + running
        ready += sum(_is_ready(status) for status in running)
        state = _containers_status(pod, running, init_status or _phase_status(pod))
    return (
        name(pod),
        f"{ready}/{total}",
        _deletion_status(pod) or state,
        _restarts(statuses, now),
        format_age(pod, now),
        next((text(each, "ip") for each in entries(pod, "status.podIPs")), text(pod, "status.podIP")) or "<none>",
        text(pod, "spec.nodeName", "<none>"),
        text(pod, "status.nominatedNodeName", "<none>"),
        _readiness_gates(pod),
    )


def _phase_status(pod: Data) -> str:
    for condition in entries(pod, "status.conditions"):
        if text(condition, "type") == "PodScheduled" and text(condition, "reason") == "SchedulingGated":
            return "SchedulingGated"
    return text(pod, "status.reason") or text(pod, "status.phase", "Pending")


def _initialization(pod: Data, sidecars: Collection[str]) -> tuple[list[Data], str]:
    """Return the states of the init containers up to the first that is not done, and the status of that one."""
    statuses = entries(pod, "status.initContainerStatuses")
    for index, status in enumerate(statuses):
        terminated = value(status, "state.terminated")
        if terminated is not None and number(terminated, "exitCode") == 0:
            continue
        if text(status, "name") in sidecars and flag(status, "started"):
            continue
        waiting = text(status, "state.waiting.reason")
        if terminated is not None:
            init_status = _end(terminated)
        elif waiting not in ("", "PodInitializing"):
            init_status = waiting
        else:
            init_status = f"{index}/{len(entries(pod, 'spec.initContainers'))}"
        return statuses[: index + 1], f"Init:{init_status}"
    return statuses, ""


def _containers_status(pod: Data, statuses: list[Data], state: str) -> str:
    failure = ""
    for status in reversed(statuses):
        terminated = value(status, "state.terminated")
        if reason := text(status, "state.waiting.reason"):
            state = reason
        elif terminated is not None:
            state = _end(terminated)
            failure = state if number(terminated, "exitCode") else failure
    if state != "Completed":
        return state
    runs = any(_is_ready(status) for status in statuses)
    if runs and _condition(pod, "Ready") == "True":
        return "Running"
    return failure or ("NotReady" if runs else state)


def _deletion_status(pod: Data) -> str:
    if not text(pod, "metadata.deletionTimestamp"):
        return ""
    if text(pod, "status.reason") == "NodeLost":
        return "Unknown"
    return "" if text(pod, "status.phase") in ("Succeeded", "Failed") else "Terminating"


def _end(terminated: object) -> str:
    signal = number(terminated, "signal")
    code = f"Signal:{signal}" if signal else f"ExitCode:{number(terminated, 'exitCode')}"
    return text(terminated, "reason", code)


def _is_ready(status: Data) -> bool:
    state = mapping(status, "state")
    ended = bool(text(state, "waiting.reason")) or state.get("terminated") is not None
    return not ended and flag(status, "ready") and state.get("running") is not None


def _is_ready_sidecar(status: Data, sidecars: Collection[str]) -> bool:
    terminated = value(status, "state.terminated")
    ended = terminated is not None and number(terminated, "exitCode") == 0
    return not ended and text(status, "name") in sidecars and flag(status, "started") and flag(status, "ready")


def _restarts(statuses: list[Data], now: float) -> str:
    restarts = sum(number(status, "restartCount") for status in statuses)
    last = max((text(status, "lastState.terminated.finishedAt") for status in statuses), default="")
    return f"{restarts} ({format_elapsed(last, now)} ago)" if restarts and last else str(restarts)


def _readiness_gates(pod: Data) -> str:
    gates = [text(gate, "conditionType") for gate in entries(pod, "spec.readinessGates")]
    if not gates:
        return "<none>"
    return f"{sum(_condition(pod, gate) == 'True' for gate in gates)}/{len(gates)}"


def _condition(pod: Data, kind: str) -> str:
    conditions = entries(pod, "status.conditions")
    return next((text(each, "status") for each in conditions if text(each, "type") == kind), "")


def format_selector_labels(workload: Data, now: float) -> str:
    return format_labels(mapping(workload, "spec.selector"))


def format_labels(labels: Data) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"


def format_selector(workload: Data, now: float) -> str:
    return format_selector_at(workload, "spec.selector")


def format_selector_at(document: Data, path: str) -> str:
    try:
        return str(label_selector(msgspec.convert(value(document, path), LabelSelector))) or "<none>"
    except ValueError:
        return "<none>" if value(document, path) is None else "<error>"


def _container_fields(field: str, path: str = "spec.template.spec.containers") -> CellReader:
    return lambda workload, now: ",".join(text(each, field) for each in entries(workload, path))


def _desired(workload: Data, path: str = "spec.replicas") -> int:
    return 1 if value(workload, path) is None else number(workload, path)


def _ready_replicas(workload: Data, now: float) -> str:
    return f"{number(workload, 'status.readyReplicas')}/{_desired(workload)}"


def _group_status(group: Data, now: float) -> str:
    conditions = {text(each, "type"): each for each in entries(group, "status.conditions")}
    if disrupted := conditions.get("DisruptionTarget"):
        return text(disrupted, "reason")
    scheduled = conditions.get("PodGroupInitiallyScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if text(scheduled, "status") == "True" else "Unschedulable"


def _group_policy(group: Data, now: float) -> str:
    return "Basic" if value(group, "spec.schedulingPolicy.gang") is None else "Gang"


_POD_GROUP = lay_out(
    "Name, Policy, Workload=spec.workloadRef.workloadName|<none>, Status, Age",
    {"Policy": _group_policy, "Status": _group_status},
)


def _job_status(job: Data, now: float) -> str:
    true_conditions = {
        text(each, "type") for each in entries(job, "status.conditions") if text(each, "status") == "True"
    }
    if text(job, "metadata.deletionTimestamp"):
        return "Terminating"
    states = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((each for each in states if each in true_conditions), "Running")


def _completions(job: Data, now: float) -> str:
    succeeded = number(job, "status.succeeded")
    if value(job, "spec.completions") is not None:
        return f"{succeeded}/{number(job, 'spec.completions')}"
    parallelism = _desired(job, "spec.parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Data, now: float) -> str:
    started, ended = text(job, "status.startTime"), text(job, "status.completionTime")
    if not started:
        return ""
    return format_duration((seconds_of(ended) if ended else now) - seconds_of(started))


def _last_schedule(cron: Data, now: float) -> str:
    last = text(cron, "status.lastScheduleTime")
    return format_elapsed(last, now) if last else "<none>"


_CRON_CONTAINERS = "spec.jobTemplate.spec.template.spec.containers"


def _controller(revision: Data, now: float) -> str:
    owner = next((each for each in entries(revision, "metadata.ownerReferences") if flag(each, "controller")), None)
    if owner is None:
        return "<none>"
    kind, group = text(owner, "kind").lower(), text(owner, "apiVersion").rpartition("/")[0]
    return f"{kind}.{group}/{text(owner, 'name')}" if group else f"{kind}/{text(owner, 'name')}"


def _targets(scaler: Data, now: float) -> str:
    current = entries(scaler, "status.currentMetrics")
    texts = [_target(each, current, index) for index, each in enumerate(entries(scaler, "spec.metrics"))]
    more = f" + {len(texts) - 2} more..." if len(texts) > 2 else ""
    return ", ".join(texts[:2]) + more if texts else "<none>"


def _target(metric: Data, current: list[Data], index: int) -> str:
    kind = text(metric, "type")
    field = f"{kind[:1].lower()}{kind[1:]}"
    target = mapping(metric, f"{field}.target")
    observed = mapping(current[index], f"{field}.current") if index < len(current) else {}
    prefix = f"{text(metric, f'{field}.name')}: " if field in ("resource", "containerResource") else ""
    if "averageUtilization" in target:
        now = f"{number(observed, 'averageUtilization')}%" if "averageUtilization" in observed else "<unknown>"
        return f"{prefix}{now}/{number(target, 'averageUtilization')}%"
    unit = "averageValue" if "averageValue" in target else "value"
    suffix = " (avg)" if unit == "averageValue" and field not in ("resource", "containerResource") else ""
    return f"{prefix}{text(observed, unit, '<unknown>')}/{text(target, unit)}{suffix}"


_CONTAINERS = {"Containers": _container_fields("name"), "Images": _container_fields("image")}
_REPLICAS = (
    "Name, Desired:integer=spec.replicas|1, Current:integer=status.replicas, Ready:integer=status.readyReplicas, Age, "
    "(Containers), (Images), (Selector)"
)
WORKLOADS = {
    ("v1", "ReplicationController"): lay_out(_REPLICAS, _CONTAINERS | {"Selector": format_selector_labels}),
    ("v1", "PodTemplate"): lay_out(
        "Name, Containers, Images, Pod Labels",
        {
            "Containers": _container_fields("name", "template.spec.containers"),
            "Images": _container_fields("image", "template.spec.containers"),
            "Pod Labels": lambda template, now: format_labels(mapping(template, "template.metadata.labels")),
        },
    ),
    ("apps/v1", "ReplicaSet"): lay_out(_REPLICAS, _CONTAINERS | {"Selector": format_selector}),
    ("apps/v1", "StatefulSet"): lay_out(
        "Name, Ready, Age, (Containers), (Images)", _CONTAINERS | {"Ready": _ready_replicas}
    ),
    ("apps/v1", "Deployment"): lay_out(
        "Name, Ready, Up-to-date:integer=status.updatedReplicas, Available:integer=status.availableReplicas, Age, "
        "(Containers), (Images), (Selector)",
        _CONTAINERS | {"Ready": _ready_replicas, "Selector": format_selector},
    ),
    ("apps/v1", "DaemonSet"): lay_out(
        "Name, Desired:integer=status.desiredNumberScheduled, Current:integer=status.currentNumberScheduled, "
        "Ready:integer=status.numberReady, Up-to-date:integer=status.updatedNumberScheduled, "
        "Available:integer=status.numberAvailable, Node Selector, Age, (Containers), (Images), (Selector)",
        {
            **_CONTAINERS,
            "Node Selector": lambda workload, now: format_labels(mapping(workload, "spec.template.spec.nodeSelector")),
            "Selector": format_selector,
        },
    ),
    ("apps/v1", "ControllerRevision"): lay_out(
        "Name, Controller, Revision:integer=revision, Age", {"Controller": _controller}
    ),
    ("batch/v1", "Job"): lay_out(
        "Name, Status, Completions, Duration, Age, (Containers), (Images), (Selector)",
        _CONTAINERS
        | {"Status": _job_status, "Completions": _completions, "Duration": _duration, "Selector": format_selector},
    ),
    ("batch/v1", "CronJob"): lay_out(
        "Name, Schedule=spec.schedule, Timezone=spec.timeZone|<none>, Suspend, Active:integer, Last Schedule, Age, "
        "(Containers), (Images), (Selector)",
        {
            "Suspend": lambda cron, now: str(flag(cron, "spec.suspend")),
            "Active": lambda cron, now: len(entries(cron, "status.active")),
            "Last Schedule": _last_schedule,
            "Containers": _container_fields("name", _CRON_CONTAINERS),
            "Images": _container_fields("image", _CRON_CONTAINERS),
            "Selector": lambda cron, now: format_selector_at(cron, "spec.jobTemplate.spec.selector"),
        },
    ),
    **{(f"scheduling.k8s.io/{version}", "PodGroup"): _POD_GROUP for version in ("v1alpha3", "v1beta1")},
    # Without a status: the scheduler of 1.37 writes none.
    ("scheduling.k8s.io/v1alpha3", "CompositePodGroup"): lay_out(
        "Name, Policy, Parent=spec.parentCompositePodGroupName|<none>, "
        "Workload=spec.workloadRef.workloadName|<none>, Age",
        {"Policy": _group_policy},
    ),
    ("autoscaling/v1", "Scale"): lay_out("Name, Desired:integer=spec.replicas, Available:integer=status.replicas, Age"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"): lay_out(
        "Name, Reference, Targets, MinPods=spec.minReplicas|<unset>, MaxPods:integer=spec.maxReplicas, "
        "Replicas:integer=status.currentReplicas, Age",
        {
            "Reference": lambda scaler, now: (
                f"{text(scaler, 'spec.scaleTargetRef.kind')}/{text(scaler, 'spec.scaleTargetRef.name')}"
            ),
            "Targets": _targets,
        },
    ),
}
