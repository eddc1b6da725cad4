"""What tables say about workloads and their pods: counts, and the one word for the state of a pod."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from kframework.clock import seconds_of
from kframework.fake_api.printers.layouts import Document, Fill, age, human_duration, layout, since
from kframework.fake_api.wire.plain_data import entries, flag, mapping, name, number, text, value
from kframework.objects import LabelSelector
from kframework.objects.label_selectors import label_selector


def pod_cells(pod: Document, now: float) -> tuple[str, ...]:
    """Fill the columns Name, Ready, Status, Restarts, Age, IP, Node, Nominated Node and Readiness Gates."""
    sidecars = {
        text(each, "name") for each in entries(pod, "spec.initContainers") if text(each, "restartPolicy") == "Always"
    }
    total = len(entries(pod, "spec.containers")) + len(sidecars)
    begun, trouble = _initialization(pod, sidecars)
    ready = sum(_is_ready_sidecar(status, sidecars) for status in begun)
    if trouble and _condition(pod, "Initialized") != "True":
        counted, word = begun, trouble
    else:
        running = entries(pod, "status.containerStatuses")
        counted = [status for status in begun if text(status, "name") in sidecars] + running
        ready += sum(_is_ready(status) for status in running)
        word = _word_of_containers(pod, running, trouble or _word_of_phase(pod))
    return (
        name(pod),
        f"{ready}/{total}",
        _word_of_deletion(pod) or word,
        _restarts(counted, now),
        age(pod, now),
        next((text(each, "ip") for each in entries(pod, "status.podIPs")), text(pod, "status.podIP")) or "<none>",
        text(pod, "spec.nodeName", "<none>"),
        text(pod, "status.nominatedNodeName", "<none>"),
        _readiness_gates(pod),
    )


def _word_of_phase(pod: Document) -> str:
    for condition in entries(pod, "status.conditions"):
        if text(condition, "type") == "PodScheduled" and text(condition, "reason") == "SchedulingGated":
            return "SchedulingGated"
    return text(pod, "status.reason") or text(pod, "status.phase", "Pending")


def _initialization(pod: Document, sidecars: Collection[str]) -> tuple[list[Document], str]:
    """Return the states of the init containers up to the one that holds the pod up, and what is wrong with that one."""
    statuses = entries(pod, "status.initContainerStatuses")
    for index, status in enumerate(statuses):
        terminated = value(status, "state.terminated")
        if terminated is not None and number(terminated, "exitCode") == 0:
            continue
        if text(status, "name") in sidecars and flag(status, "started"):
            continue
        waiting = text(status, "state.waiting.reason")
        if terminated is not None:
            trouble = _end(terminated)
        elif waiting not in ("", "PodInitializing"):
            trouble = waiting
        else:
            trouble = f"{index}/{len(entries(pod, 'spec.initContainers'))}"
        return statuses[: index + 1], f"Init:{trouble}"
    return statuses, ""


def _word_of_containers(pod: Document, statuses: list[Document], word: str) -> str:
    """Let the first container that waits or has ended say what is the matter."""
    failure = ""
    for status in reversed(statuses):
        terminated = value(status, "state.terminated")
        if reason := text(status, "state.waiting.reason"):
            word = reason
        elif terminated is not None:
            word = _end(terminated)
            failure = word if number(terminated, "exitCode") else failure
    if word != "Completed":
        return word
    runs = any(_is_ready(status) for status in statuses)
    if runs and _condition(pod, "Ready") == "True":
        return "Running"
    return failure or ("NotReady" if runs else word)


def _word_of_deletion(pod: Document) -> str:
    if not text(pod, "metadata.deletionTimestamp"):
        return ""
    if text(pod, "status.reason") == "NodeLost":
        return "Unknown"
    return "" if text(pod, "status.phase") in ("Succeeded", "Failed") else "Terminating"


def _end(terminated: object) -> str:
    signal = number(terminated, "signal")
    code = f"Signal:{signal}" if signal else f"ExitCode:{number(terminated, 'exitCode')}"
    return text(terminated, "reason", code)


def _is_ready(status: Document) -> bool:
    """Return whether a container runs and is ready; one that waits or has ended is not, whatever else is said of it."""
    state = mapping(status, "state")
    ended = bool(text(state, "waiting.reason")) or state.get("terminated") is not None
    return not ended and flag(status, "ready") and state.get("running") is not None


def _is_ready_sidecar(status: Document, sidecars: Collection[str]) -> bool:
    terminated = value(status, "state.terminated")
    ended = terminated is not None and number(terminated, "exitCode") == 0
    return not ended and text(status, "name") in sidecars and flag(status, "started") and flag(status, "ready")


def _restarts(statuses: list[Document], now: float) -> str:
    restarts = sum(number(status, "restartCount") for status in statuses)
    last = max((text(status, "lastState.terminated.finishedAt") for status in statuses), default="")
    return f"{restarts} ({since(last, now)} ago)" if restarts and last else str(restarts)


def _readiness_gates(pod: Document) -> str:
    gates = [text(gate, "conditionType") for gate in entries(pod, "spec.readinessGates")]
    if not gates:
        return "<none>"
    return f"{sum(_condition(pod, gate) == 'True' for gate in gates)}/{len(gates)}"


def _condition(pod: Document, kind: str) -> str:
    """Return the status of a condition, empty if the pod does not have it."""
    conditions = entries(pod, "status.conditions")
    return next((text(each, "status") for each in conditions if text(each, "type") == kind), "")


def labels(workload: Document, now: float) -> str:
    """Write a selector that is a mapping."""
    return written(mapping(workload, "spec.selector"))


def written(said: Document) -> str:
    """Write labels in one line."""
    return ",".join(f"{key}={said[key]}" for key in sorted(said)) or "<none>"


def selector(workload: Document, now: float) -> str:
    """Write the selector of a workload."""
    return selector_at(workload, "spec.selector")


def selector_at(document: Document, path: str) -> str:
    """Write a selector with labels and expressions."""
    try:
        return str(label_selector(msgspec.convert(value(document, path), LabelSelector))) or "<none>"
    except ValueError:
        return "<none>" if value(document, path) is None else "<error>"


def _of_containers(field: str, path: str = "spec.template.spec.containers") -> Fill:
    return lambda workload, now: ",".join(text(each, field) for each in entries(workload, path))


def _wanted(workload: Document, path: str = "spec.replicas") -> int:
    return 1 if value(workload, path) is None else number(workload, path)


def _ready_replicas(workload: Document, now: float) -> str:
    return f"{number(workload, 'status.readyReplicas')}/{_wanted(workload)}"


def _job_status(job: Document, now: float) -> str:
    holding = {text(each, "type") for each in entries(job, "status.conditions") if text(each, "status") == "True"}
    if text(job, "metadata.deletionTimestamp"):
        return "Terminating"
    states = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((each for each in states if each in holding), "Running")


def _completions(job: Document, now: float) -> str:
    succeeded = number(job, "status.succeeded")
    if value(job, "spec.completions") is not None:
        return f"{succeeded}/{number(job, 'spec.completions')}"
    parallelism = _wanted(job, "spec.parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Document, now: float) -> str:
    started, ended = text(job, "status.startTime"), text(job, "status.completionTime")
    if not started:
        return ""
    return human_duration((seconds_of(ended) if ended else now) - seconds_of(started))


def _last_schedule(cron: Document, now: float) -> str:
    last = text(cron, "status.lastScheduleTime")
    return since(last, now) if last else "<none>"


_CRON_CONTAINERS = "spec.jobTemplate.spec.template.spec.containers"


def _controller(revision: Document, now: float) -> str:
    """Name the workload that a revision is one of."""
    owner = next((each for each in entries(revision, "metadata.ownerReferences") if flag(each, "controller")), None)
    if owner is None:
        return "<none>"
    kind, group = text(owner, "kind").lower(), text(owner, "apiVersion").rpartition("/")[0]
    return f"{kind}.{group}/{text(owner, 'name')}" if group else f"{kind}/{text(owner, 'name')}"


def _targets(scaler: Document, now: float) -> str:
    current = entries(scaler, "status.currentMetrics")
    shown = [_target(each, current, place) for place, each in enumerate(entries(scaler, "spec.metrics"))]
    more = f" + {len(shown) - 2} more..." if len(shown) > 2 else ""
    return ", ".join(shown[:2]) + more if shown else "<none>"


def _target(metric: Document, current: list[Document], place: int) -> str:
    kind = text(metric, "type")
    field = f"{kind[:1].lower()}{kind[1:]}"
    wanted = mapping(metric, f"{field}.target")
    has = mapping(current[place], f"{field}.current") if place < len(current) else {}
    prefix = f"{text(metric, f'{field}.name')}: " if field in ("resource", "containerResource") else ""
    if "averageUtilization" in wanted:
        now = f"{number(has, 'averageUtilization')}%" if "averageUtilization" in has else "<unknown>"
        return f"{prefix}{now}/{number(wanted, 'averageUtilization')}%"
    unit = "averageValue" if "averageValue" in wanted else "value"
    suffix = " (avg)" if unit == "averageValue" and field not in ("resource", "containerResource") else ""
    return f"{prefix}{text(has, unit, '<unknown>')}/{text(wanted, unit)}{suffix}"


_CONTAINERS = {"Containers": _of_containers("name"), "Images": _of_containers("image")}
_REPLICAS = (
    "Name, Desired:integer=spec.replicas|1, Current:integer=status.replicas, Ready:integer=status.readyReplicas, Age, "
    "(Containers), (Images), (Selector)"
)
#: By apiVersion and kind.
WORKLOADS = {
    ("v1", "ReplicationController"): layout(_REPLICAS, _CONTAINERS | {"Selector": labels}),
    ("v1", "PodTemplate"): layout(
        "Name, Containers, Images, Pod Labels",
        {
            "Containers": _of_containers("name", "template.spec.containers"),
            "Images": _of_containers("image", "template.spec.containers"),
            "Pod Labels": lambda template, now: written(mapping(template, "template.metadata.labels")),
        },
    ),
    ("apps/v1", "ReplicaSet"): layout(_REPLICAS, _CONTAINERS | {"Selector": selector}),
    ("apps/v1", "StatefulSet"): layout(
        "Name, Ready, Age, (Containers), (Images)", _CONTAINERS | {"Ready": _ready_replicas}
    ),
    ("apps/v1", "Deployment"): layout(
        "Name, Ready, Up-to-date:integer=status.updatedReplicas, Available:integer=status.availableReplicas, Age, "
        "(Containers), (Images), (Selector)",
        _CONTAINERS | {"Ready": _ready_replicas, "Selector": selector},
    ),
    ("apps/v1", "DaemonSet"): layout(
        "Name, Desired:integer=status.desiredNumberScheduled, Current:integer=status.currentNumberScheduled, "
        "Ready:integer=status.numberReady, Up-to-date:integer=status.updatedNumberScheduled, "
        "Available:integer=status.numberAvailable, Node Selector, Age, (Containers), (Images), (Selector)",
        {
            **_CONTAINERS,
            "Node Selector": lambda workload, now: written(mapping(workload, "spec.template.spec.nodeSelector")),
            "Selector": selector,
        },
    ),
    ("apps/v1", "ControllerRevision"): layout(
        "Name, Controller, Revision:integer=revision, Age", {"Controller": _controller}
    ),
    ("batch/v1", "Job"): layout(
        "Name, Status, Completions, Duration, Age, (Containers), (Images), (Selector)",
        _CONTAINERS | {"Status": _job_status, "Completions": _completions, "Duration": _duration, "Selector": selector},
    ),
    ("batch/v1", "CronJob"): layout(
        "Name, Schedule=spec.schedule, Timezone=spec.timeZone|<none>, Suspend, Active:integer, Last Schedule, Age, "
        "(Containers), (Images), (Selector)",
        {
            "Suspend": lambda cron, now: str(flag(cron, "spec.suspend")),
            "Active": lambda cron, now: len(entries(cron, "status.active")),
            "Last Schedule": _last_schedule,
            "Containers": _of_containers("name", _CRON_CONTAINERS),
            "Images": _of_containers("image", _CRON_CONTAINERS),
            "Selector": lambda cron, now: selector_at(cron, "spec.jobTemplate.spec.selector"),
        },
    ),
    ("autoscaling/v2", "HorizontalPodAutoscaler"): layout(
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
