"""What a table says about a pod: how many of its containers are ready, and the one word for the state it is in."""

from __future__ import annotations

from collections.abc import Collection

from kframework.fake_api.printers.ages import age, since
from kframework.fake_api.wire.plain_data import entries, flag, mapping, name, number, text, value

_Document = dict[str, object]


def pod_cells(pod: _Document, now: float) -> tuple[str, ...]:
    """Fill the columns Name, Ready, Status, Restarts, Age, IP, Node, Nominated Node and Readiness Gates."""
    sidecars = {text(each, "name") for each in entries(pod, "spec.initContainers") if _always_restarts(each)}
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


# -- the word for the state ----------------------------------------------------------------------------------------


def _word_of_phase(pod: _Document) -> str:
    for condition in entries(pod, "status.conditions"):
        if text(condition, "type") == "PodScheduled" and text(condition, "reason") == "SchedulingGated":
            return "SchedulingGated"
    return text(pod, "status.reason") or text(pod, "status.phase", "Pending")


def _initialization(pod: _Document, sidecars: Collection[str]) -> tuple[list[_Document], str]:
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


def _word_of_containers(pod: _Document, statuses: list[_Document], word: str) -> str:
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


def _word_of_deletion(pod: _Document) -> str:
    if not text(pod, "metadata.deletionTimestamp"):
        return ""
    if text(pod, "status.reason") == "NodeLost":
        return "Unknown"
    return "" if text(pod, "status.phase") in ("Succeeded", "Failed") else "Terminating"


def _end(terminated: object) -> str:
    signal = number(terminated, "signal")
    code = f"Signal:{signal}" if signal else f"ExitCode:{number(terminated, 'exitCode')}"
    return text(terminated, "reason", code)


# -- containers and conditions -------------------------------------------------------------------------------------


def _always_restarts(container: _Document) -> bool:
    return text(container, "restartPolicy") == "Always"


def _is_ready(status: _Document) -> bool:
    """Return whether a container runs and is ready; one that waits or has ended is not, whatever else is said of it."""
    state = mapping(status, "state")
    ended = bool(text(state, "waiting.reason")) or state.get("terminated") is not None
    return not ended and flag(status, "ready") and state.get("running") is not None


def _is_ready_sidecar(status: _Document, sidecars: Collection[str]) -> bool:
    terminated = value(status, "state.terminated")
    ended = terminated is not None and number(terminated, "exitCode") == 0
    return not ended and text(status, "name") in sidecars and flag(status, "started") and flag(status, "ready")


def _restarts(statuses: list[_Document], now: float) -> str:
    restarts = sum(number(status, "restartCount") for status in statuses)
    last = max((text(status, "lastState.terminated.finishedAt") for status in statuses), default="")
    return f"{restarts} ({since(last, now)} ago)" if restarts and last else str(restarts)


def _readiness_gates(pod: _Document) -> str:
    gates = [text(gate, "conditionType") for gate in entries(pod, "spec.readinessGates")]
    if not gates:
        return "<none>"
    return f"{sum(_condition(pod, gate) == 'True' for gate in gates)}/{len(gates)}"


def _condition(pod: _Document, kind: str) -> str:
    """Return the status of a condition, empty if the pod does not have it."""
    conditions = entries(pod, "status.conditions")
    return next((text(each, "status") for each in conditions if text(each, "type") == kind), "")
