"""What is asked of the containers of a pod, of which none runs: their logs, and commands in them."""

from __future__ import annotations

from kframework.client import api_errors
from kframework.client.request_attributes import flag
from kframework.client.transport import Response
from kframework.errors import ClusterError
from kframework.fake_api.calls import Call
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Pod

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
    name = _container(pod, call.query.get("container", ""))
    if not pod.spec.node_name:
        return Response(200, b"", {"content-type": _PLAIN})
    if pod.status.phase == "Pending":
        why = f'container "{name}" in pod "{pod.metadata.name}" is waiting to start: ContainerCreating'
        raise api_errors.bad_request(why)
    lines = pod.metadata.annotations.get(LOGS, _NOTHING).splitlines(keepends=True)
    if flag(call.query, "timestamps"):
        lines = [f"{pod.status.start_time or pod.metadata.creation_timestamp} {line}" for line in lines]
    last = call.query.get("tailLines", "")
    kept = lines[max(0, len(lines) - int(last)) :] if last.isdecimal() and len(last) < 10 else lines
    return Response(200, "".join(kept).encode(), {"content-type": _PLAIN})


def no_process(call: Call) -> ClusterError:
    """Say that a command cannot be run in a container."""
    message = f"nothing is executed here: pod {call.path.name} has no process for {call.path.subresource}"
    return ClusterError(message, status=501, reason="NotImplemented")


def _container(pod: Pod, wanted: str) -> str:
    """Find the container that is meant; ClusterError 400 if that cannot be told, or there is none of its name."""
    names = [each.name for each in pod.spec.containers]
    first = [each.name for each in pod.spec.init_containers]
    if wanted:
        if wanted not in (*names, *first):
            raise api_errors.bad_request(f"container {wanted:.253} is not valid for pod {pod.metadata.name}")
        return wanted
    if len(names) == 1:
        return names[0]
    choice = f", choose one of: [{' '.join(names)}]"
    choice += f" or one of the init containers: [{' '.join(first)}]" if first else ""
    raise api_errors.bad_request(f"a container name must be specified for pod {pod.metadata.name}{choice}")
