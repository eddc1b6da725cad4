"""Lookup of the pod to be explained by its name, in its state before it had a node."""

from __future__ import annotations

from collections.abc import Generator
from itertools import chain, islice

from msgspec.structs import replace

from kframework.core.pod_engine import PodEngine
from kframework.errors import nearest_name
from kframework.objects import NodeSelector, ObjectMeta, Pod, PodSpec, PodStatus
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, PodInfo

#: The number of pods examined before other tasks run.
_PODS_PER_SLICE = 5_000

#: The number of pods with names that are compared with one that does not exist: 1,000 take 10 ms.
_MAX_COMPARED = 1_000


def find_pod(engine: PodEngine, namespace: str, name: str) -> Generator[None, None, PodInfo | None]:
    """Find a pod that this engine schedules or has scheduled, pausing now and then; None if unknown."""
    pod_info: PodInfo | None = None
    for pods in (engine.cluster.pods, engine.handlers.pending):
        for number, pod in enumerate(list(pods.values()), 1):
            if pod.name == name and pod.namespace == namespace:
                pod_info = pod
                break
            if number % _PODS_PER_SLICE == 0:
                yield
    if pod_info is None or pod_info.spec.profile_name not in engine.profiles:
        return None
    return pod_info


def not_found_message(engine: PodEngine, namespace: str, name: str, pod: Pod | None) -> str:
    """Return why an engine does not know a pod, with a similar one that it knows; `pod` is its object if it exists."""
    key, profiles = f"{namespace}/{name}", engine.profiles
    if pod is None:
        known = list(chain(engine.cluster.pods.values(), engine.handlers.pending.values()))
        names = islice((each.name for each in known if each.namespace == namespace), _MAX_COMPARED)
        similar = [each.key for each in known if each.name == name]
        similar += [f"{namespace}/{each}" for each in [nearest_name(name, names)] if each is not None]
        return f"there is no pod {key}" + (f"; did you mean {similar[0]}?" if similar else "")
    wanted = pod.spec.profile_name
    if wanted not in profiles:
        return f"pod {key} is for the scheduler {wanted!r}; this one schedules for {', '.join(profiles)}"
    if pod.status.phase in ("Succeeded", "Failed"):
        return f"pod {key} has finished ({pod.status.phase}) and is no longer scheduled"
    return f"the scheduler does not know pod {key} yet"


def unassign(pod: PodInfo, whole: Pod | None, interned: TemplateInterner) -> PendingPod:
    """Return a pod as it was before it had a node; `whole` is its object, if it is known."""
    if isinstance(pod, PendingPod):
        return pod
    if whole is None or whole.metadata.uid != pod.uid:
        # Rebuilt from the data that the scheduler keeps of a pod on a node.
        metadata = ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid, labels=dict(pod.labels))
        claims, volumes = iter(pod.claims), []
        for volume in pod.spec.volumes:
            if (source := volume.persistent_volume_claim) is not None:
                volume = replace(volume, persistent_volume_claim=replace(source, claim_name=next(claims)))
            volumes.append(volume)
        spec = _pin_to_node(replace(pod.spec, volumes=tuple(volumes)), pod.node_name)
        whole = Pod(metadata=metadata, spec=spec, status=PodStatus(resource_claim_statuses=pod.claim_statuses))
    spec = replace(whole.spec, node_name="")
    status = replace(whole.status, nominated_node_name="")
    return PendingPod(replace(whole, spec=spec, status=status), interned)


def _pin_to_node(spec: PodSpec, node_name: str) -> PodSpec:
    """Pin the pod of a DaemonSet to its node again, as the template shared by such pods omits it."""
    node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity is not None else None
    if spec.affinity is None or node_affinity is None or required is None:
        return spec
    terms = []
    for term in required.node_selector_terms:
        fields = (replace(each, values=(node_name,)) if each.values == ("",) else each for each in term.match_fields)
        terms.append(replace(term, match_fields=tuple(fields)))
    selector = NodeSelector(node_selector_terms=tuple(terms))
    pinned = replace(node_affinity, required_during_scheduling_ignored_during_execution=selector)
    return replace(spec, affinity=replace(spec.affinity, node_affinity=pinned))
