"""What kubelets report of nodes and pods and no scheduler reads: addresses, and how the containers are.

All of it follows from the rest of the document, so it is added as that is written. Where nobody says otherwise a node
is ready, and so is a pod that runs, with all its containers. An address follows from a name or a uid.
"""

from __future__ import annotations

import msgspec

from kframework.fake_api.addresses import host_address, own_address
from kframework.fake_api.schema.qos import qos_class
from kframework.fake_api.wire.documents import Data, Document
from kframework.fake_api.wire.plain_data import entries, mapping, text
from kframework.objects import Node, Pod

_RUNNING = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_ENDS: dict[str, Data] = {
    "Succeeded": {"exitCode": 0, "reason": "Completed"},
    "Failed": {"exitCode": 1, "reason": "Error"},
}


def reported(document: Document) -> Document:
    """Return the document with what a kubelet would have added."""
    match document.subject:
        case Node():
            status = _of_node(document.data)
        case Pod(spec=spec, status=said) if spec.node_name and said.phase in ("Running", *_ENDS):
            status = _of_pod(document.data, said.phase)
        case _:
            return document
    data = document.data
    if status == data.get("status"):
        return document
    return Document(document.subject, msgspec.json.encode(data | {"status": status}))


# -- nodes ---------------------------------------------------------------------------------------------------------


def _of_node(node: Data) -> Data:
    name, since = text(node, "metadata.name"), text(node, "metadata.creationTimestamp")
    addresses = [{"type": "InternalIP", "address": host_address(name)}, {"type": "Hostname", "address": name}]
    status = {"addresses": addresses} | mapping(node, "status")
    conditions = entries(status, "conditions")
    if _lacks(conditions, "Ready"):
        why = {"reason": "KubeletReady", "message": "kubelet is posting ready status"}
        status["conditions"] = [*conditions, _true("Ready", since) | why | _moment("lastHeartbeatTime", since)]
    return status


# -- pods ----------------------------------------------------------------------------------------------------------


def _of_pod(pod: Data, phase: str) -> Data:
    host = host_address(text(pod, "spec.nodeName"))
    own = host if mapping(pod, "spec").get("hostNetwork") is True else own_address(text(pod, "metadata.uid"))
    addresses: Data = {"hostIP": host, "hostIPs": [{"ip": host}], "podIP": own, "podIPs": [{"ip": own}]}
    status = addresses | mapping(pod, "status")
    if "qosClass" not in status:
        status["qosClass"] = qos_class(mapping(pod, "spec"))
    conditions = entries(status, "conditions")
    if phase == "Running" and _lacks(conditions, "Ready"):
        since = text(status, "startTime") or text(pod, "metadata.creationTimestamp")
        status["conditions"] = [*conditions, *(_true(name, since) for name in _RUNNING if _lacks(conditions, name))]
    state = _state(status, phase)
    for place, states in (
        ("containerStatuses", [(each, state) for each in entries(pod, "spec.containers")]),
        (
            "initContainerStatuses",
            [(each, _first(each, status, state)) for each in entries(pod, "spec.initContainers")],
        ),
    ):
        if states:
            told = {text(each, "name"): each for each in entries(status, place)}
            status[place] = [_container(each, told.get(text(each, "name"), {}), its) for each, its in states]
    return status


def _state(status: Data, phase: str) -> Data:
    began = _moment("startedAt", text(status, "startTime"))
    if phase == "Running":
        return {"running": began}
    unready = (each for each in entries(status, "conditions") if text(each, "type") == "Ready" and not _is_true(each))
    ended = text(next(unready, {}), "lastTransitionTime")
    return {"terminated": _ENDS[phase] | began | _moment("finishedAt", ended)}


def _first(container: Data, status: Data, state: Data) -> Data:
    """Say how an init container is: done, unless it is a sidecar, which fares as the others."""
    if text(container, "restartPolicy") == "Always":
        return state
    began = text(status, "startTime")
    return {"terminated": _ENDS["Succeeded"] | _moment("startedAt", began) | _moment("finishedAt", began)}


def _container(container: Data, told: Data, state: Data) -> Data:
    """Return the status of a container: what is told of it, unless it was told before the container ended."""
    runs = "running" in state
    status: Data = {
        "name": text(container, "name"),
        "image": text(container, "image"),
        "imageID": "",
        "ready": runs and not told,
        "started": runs,
        "restartCount": 0,
        "state": state,
    }
    is_stale = not runs and "terminated" not in mapping(told, "state")
    return status | told | ({"ready": False, "started": False, "state": state} if is_stale else {})


# -- both ----------------------------------------------------------------------------------------------------------


def _lacks(conditions: list[Data], name: str) -> bool:
    return all(text(each, "type") != name for each in conditions)


def _true(name: str, since: str) -> Data:
    return {"type": name, "status": "True"} | _moment("lastTransitionTime", since)


def _is_true(condition: Data) -> bool:
    return text(condition, "status") == "True"


def _moment(name: str, time: str) -> Data:
    return {name: time} if time else {}
