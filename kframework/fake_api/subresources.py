"""Subresources of a pod: binding, eviction within budgets, logs, and commands.

No container runs, so logs come from an annotation and commands fail.
"""

from __future__ import annotations

from typing import NoReturn

import msgspec
from msgspec import structs

from kframework.client import api_errors
from kframework.client.request_attributes import is_flag_set
from kframework.client.transport import Response
from kframework.errors import ClusterError
from kframework.fake_api.calls import ApiCall, DeleteOptions, read_body
from kframework.fake_api.store import Store
from kframework.fake_api.writes import check_name
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.disruptions import evict, find_budget
from kframework.in_memory.kubelet import ended_status
from kframework.objects import Pod
from kframework.objects.plain_data import entries, flag
from kframework.process.http.statuses import Subject, json_response, status_of, success

LOGS_ANNOTATION = "kframework.dev/logs"

_NO_LOGS = f"no logs: nothing is executed here; set the annotation {LOGS_ANNOTATION} of the pod to show logs\n"

PROCESS_SUBRESOURCES = frozenset({"attach", "exec", "portforward"})

_PLAIN = "text/plain; charset=utf-8"


def read_logs(cluster: MemoryCluster, call: ApiCall) -> Response:
    """Return the logs of a container; following them ends at once.

    ClusterError 404 for a missing pod, 400 for a missing container or one that waits to start.
    """
    pod = cluster.read(Pod, call.path.name, call.path.namespace)
    names = [each.name for each in pod.spec.containers]
    first = [each.name for each in pod.spec.init_containers]
    name = call.query.get("container", "") or (names[0] if len(names) == 1 else "")
    if not name:
        choice = f", choose one of: [{' '.join(names)}]"
        choice += f" or one of the init containers: [{' '.join(first)}]" if first else ""
        raise api_errors.bad_request(f"a container name must be specified for pod {pod.metadata.name}{choice}")
    if name not in (*names, *first):
        raise api_errors.bad_request(f"container {name:.253} is not valid for pod {pod.metadata.name}")
    if not pod.spec.node_name:
        return Response(200, b"", {"content-type": _PLAIN})
    if pod.status.phase == "Pending":
        why = f'container "{name}" in pod "{pod.metadata.name}" is waiting to start: ContainerCreating'
        raise api_errors.bad_request(why)
    lines = pod.metadata.annotations.get(LOGS_ANNOTATION, _NO_LOGS).splitlines(keepends=True)
    if is_flag_set(call.query, "timestamps"):
        lines = [f"{pod.status.start_time or pod.metadata.creation_timestamp} {line}" for line in lines]
    last = call.query.get("tailLines", "")
    shown = lines[max(0, len(lines) - int(last)) :] if last.isdecimal() and len(last) < 10 else lines
    return Response(200, "".join(shown).encode(), {"content-type": _PLAIN})


def refuse_process(store: Store, call: ApiCall) -> NoReturn:
    """Raise ClusterError 501, or 404 for a missing pod; a pod that reads one client's input ends (`kubectl run -i`)."""
    part, (namespace, name) = call.path.subresource, call.key
    pod = store.cluster.read(Pod, name, namespace)
    document = store.collection(call.resource.storage_kind).find(call.key)
    containers = entries(document.data, "spec.containers") if document is not None else []
    is_interactive = part == "attach" and any(flag(each, "stdinOnce") for each in containers)
    if is_interactive and pod.status.phase == "Running" and pod.spec.restart_policy != "Always":
        store.cluster.set_status(pod, ended_status(pod, store.cluster.timestamp()))
    message = f"nothing is executed here: pod {name} has no process for {part}"
    raise ClusterError(message, status=501, reason="NotImplemented")


class _ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}


class _Target(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Binding(msgspec.Struct, frozen=True):
    metadata: _ObjectMetadata = _ObjectMetadata()
    target: _Target = _Target()


class _Eviction(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _ObjectMetadata = _ObjectMetadata()
    delete_options: DeleteOptions = DeleteOptions()


def bind_pod(cluster: MemoryCluster, call: ApiCall) -> Response:
    binding = read_body(call.request, _Binding)
    metadata, target = binding.metadata, binding.target
    namespace, name = call.path.namespace, call.path.name or metadata.name
    if metadata.name:
        check_name(metadata.name, name)
    if target.kind not in ("", "Node"):
        raise _invalid(
            name, "target.kind", f'Unsupported value: "{target.kind:.100}": supported values: "Node", "<empty>"'
        )
    if not target.name:
        raise _invalid(name, "target.name", "Required value")
    if not call.is_dry_run:
        pod = cluster.assign(namespace, name, metadata.uid, target.name)
        if metadata.annotations:
            annotations = pod.metadata.annotations | metadata.annotations
            cluster.replace(structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=annotations)))
    return success(Subject(), status=201)


def _invalid(name: str, path: str, why: str) -> ClusterError:
    return ClusterError(f'Binding "{name}" is invalid: {path}: {why}', status=422, reason="Invalid")


def evict_pod(cluster: MemoryCluster, call: ApiCall) -> Response:
    namespace, name = call.key
    options = read_body(call.request, _Eviction).delete_options
    pod = cluster.read(Pod, name, namespace, uid=options.preconditions.uid)
    budget = find_budget(cluster, pod)
    if budget is not None and budget.status.disruptions_allowed <= 0:
        why = "Cannot evict pod as it would violate the pod's disruption budget."
        error = ClusterError(why, status=429, reason="TooManyRequests")
        status, count = budget.status, budget.status.current_healthy
        needs = f"The disruption budget {budget.metadata.name} needs {status.desired_healthy} healthy pods"
        causes = [{"reason": "DisruptionBudget", "message": f"{needs} and has {count} currently"}]
        return json_response(status_of(error) | {"details": {"causes": causes}}, error.status)
    if not call.is_dry_run and "All" not in options.dry_run:
        evict(cluster, pod, budget, options.grace_period_seconds)
    return success(Subject(), status=201)
