"""The events that updates of pending pods are to the pods themselves, and to others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from msgspec.structs import replace

from kframework.framework.events import ActionType, EventResource, ObservedEvent, pod_updates
from kframework.objects import Pod
from kframework.state.pods import PendingPod


def pod_update_events(old: PendingPod, new: PendingPod) -> Iterator[ObservedEvent]:
    """List the events that the update of a pending pod is to itself: none if a scheduler wrote its status.

    kube-scheduler wakes plugins that registered every update. Then a pod that Permit turns away is retried at once, as
    the node that it was nominated to has been written into its status.
    """
    for action in pod_updates(old, new):
        if action is not ActionType.UPDATE or _without_verdict(old.object) != _without_verdict(new.object):
            yield ObservedEvent(EventResource.TARGET_POD, action, old, new)


def seen_by(uid: str, event: ObservedEvent) -> ObservedEvent:
    """Return an event as it is to a pod: the update of another pod in flight is that of an unscheduled pod."""
    is_own = event.resource != EventResource.TARGET_POD or cast("PendingPod", event.new).uid == uid
    return event if is_own else replace(event, resource=EventResource.UNSCHEDULED_POD)


def _without_verdict(pod: Pod) -> Pod:
    """Return the pod without what schedulers write into its status."""
    conditions = tuple(condition for condition in pod.status.conditions if condition.type != "PodScheduled")
    status = replace(pod.status, conditions=conditions, nominated_node_name="")
    return replace(pod, metadata=replace(pod.metadata, resource_version=""), status=status)
