"""What can be done to a pod beside changing it: bind it, evict it if budgets allow, read logs, run commands.

No container runs, so logs and commands only answer what is wrong.
"""

from __future__ import annotations

import msgspec
from msgspec import structs

from kframework.client import api_errors
from kframework.client.request_attributes import is_flag_set
from kframework.client.transitions import has_ended
from kframework.client.transport import Response
from kframework.errors import ClusterError
from kframework.fake_api.calls import Call, DeleteOptions, read_body
from kframework.fake_api.controllers.disruption_controller import selector_of
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Pod, PodDisruptionBudget
from kframework.process.http.statuses import Subject, answered, status_of, success

#: The annotation with the lines that the containers of a pod have written.
LOGS = "kframework.dev/logs"

#: What they have written where nobody says it.
_NOTHING = f"nothing is executed here: these are no logs; the annotation {LOGS} of the pod says what stands here\n"

#: Subresources that need a process.
IN_A_PROCESS = frozenset({"attach", "exec", "portforward"})

_PLAIN = "text/plain; charset=utf-8"


def logs(cluster: MemoryCluster, call: Call) -> Response:
    """Return what a container has written; whoever follows it is told no more.

    Raises ClusterError 404 without such a pod, 400 for a container that there is not, or that waits to start.
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
    lines = pod.metadata.annotations.get(LOGS, _NOTHING).splitlines(keepends=True)
    if is_flag_set(call.query, "timestamps"):
        lines = [f"{pod.status.start_time or pod.metadata.creation_timestamp} {line}" for line in lines]
    last = call.query.get("tailLines", "")
    kept = lines[max(0, len(lines) - int(last)) :] if last.isdecimal() and len(last) < 10 else lines
    return Response(200, "".join(kept).encode(), {"content-type": _PLAIN})


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}


class _Target(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Binding(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    target: _Target = _Target()


class _Eviction(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Metadata = _Metadata()
    delete_options: DeleteOptions = DeleteOptions()


def bind(cluster: MemoryCluster, call: Call) -> Response:
    """Bind a pod to a node; ClusterError 400, 404, 409 or 422 as an API server."""
    namespace, name = call.key
    binding = read_body(call.request, _Binding)
    metadata, target = binding.metadata, binding.target
    if metadata.name not in ("", name):
        why = f"the name of the object ({metadata.name:.253}) does not match the name on the URL ({name})"
        raise api_errors.bad_request(why)
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


def evict(cluster: MemoryCluster, call: Call) -> Response:
    """Delete a pod, and charge its budget; 429 if that does not allow it, ClusterError 404 or 409."""
    namespace, name = call.key
    options = read_body(call.request, _Eviction).delete_options
    uid = options.preconditions.uid
    pod = cluster.read(Pod, name, namespace, uid=uid)
    runs = bool(pod.spec.node_name) and not has_ended(pod) and pod.metadata.deletion_timestamp is None
    budgets = cluster.objects(PodDisruptionBudget, namespace) if runs else []
    covering = [each for each in budgets if selector_of(each).matches(pod.metadata.labels)]
    if len(covering) > 1:  # no server can charge several at once
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ClusterError(message, status=500, reason="InternalError")
    budget = covering[0] if covering else None
    if budget is not None and budget.status.disruptions_allowed <= 0:
        why = "Cannot evict pod as it would violate the pod's disruption budget."
        error = ClusterError(why, status=429, reason="TooManyRequests")
        told, count = budget.status, budget.status.current_healthy
        needs = f"The disruption budget {budget.metadata.name} needs {told.desired_healthy} healthy pods"
        causes = [{"reason": "DisruptionBudget", "message": f"{needs} and has {count} currently"}]
        return answered(status_of(error) | {"details": {"causes": causes}}, error.status)
    if not call.is_dry_run and "All" not in options.dry_run:
        if budget is not None:
            status = structs.replace(
                budget.status,
                disruptions_allowed=budget.status.disruptions_allowed - 1,
                disrupted_pods=budget.status.disrupted_pods | {name: cluster.timestamp()},
            )
            cluster.replace(structs.replace(budget, status=status))
        cluster.remove(Pod, name, namespace, uid=uid, grace=options.grace_period_seconds)
    return success(Subject(), status=201)
