"""Find the pod that is to be explained, or say in one line why there is nothing to explain."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from kframework.core.pod_engine import PodEngine
from kframework.objects import Pod
from kframework.state.pods import PodInfo

#: After so many pods whoever looks for one lets others have their turn.
_LOOKED_AT = 5_000


def known_pod(engine: PodEngine, namespace: str, name: str) -> Generator[None, None, PodInfo | None]:
    """Find a pod that this engine schedules, or has scheduled; None if it knows of none.

    Yields to give way.
    """
    found: PodInfo | None = None
    for pods in (engine.cluster.pods, engine.handlers.pending):
        for number, pod in enumerate(list(pods.values()), 1):
            if pod.name == name and pod.namespace == namespace:
                found = pod
                break
            if number % _LOOKED_AT == 0:
                yield
    if found is None or (found.spec.scheduler_name or "default-scheduler") not in engine.profiles:
        return None
    return found


def not_known(namespace: str, name: str, pod: Pod | None, profiles: Iterable[str]) -> str:
    """Say why a scheduler with these profiles knows nothing of a pod, which is so in the cluster; None: not at all."""
    key = f"{namespace}/{name}"
    if pod is None:
        return f"there is no pod {key}"
    wanted = pod.spec.scheduler_name or "default-scheduler"
    if wanted not in profiles:
        return f"pod {key} is for the scheduler {wanted!r}; this one schedules for {', '.join(profiles)}"
    if pod.status.phase in ("Succeeded", "Failed"):
        return f"pod {key} has finished ({pod.status.phase}): nobody schedules it any more"
    return f"the scheduler has not heard of pod {key} yet"
