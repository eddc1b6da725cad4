"""Handlers that apply cluster events to state and queue, and turn them into the events that requeue pods."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Collection

from kframework.core.queue.pod_updates import pod_update_events
from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.core.runtime.profiles import ProfileChanges, Profiles
from kframework.framework.events import (
    ActionType,
    EventResource,
    ObservedEvent,
    event_resource,
    node_updates,
    pod_updates,
)
from kframework.objects import ApiObject, Node, Pod, kind_of
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod, PodInfo
from kframework.verbosity import V3

_log = logging.getLogger(__name__)


class EventHandlers:
    """Handlers of cluster events.

    `foreign` holds the unassigned pods of other schedulers, which another configuration may make this one's, by uid.
    """

    def __init__(self, cluster: ClusterState, queue: SchedulingQueue, profiles: Profiles) -> None:
        self.cluster = cluster
        self.queue = queue
        self.profiles = profiles
        self.pending: dict[str, PendingPod] = cluster.pending
        self.foreign: dict[str, Pod] = {}
        #: The kinds that are stored for others, and requeue no pod.
        self.silent_kinds: Collection[type[ApiObject]] = ()
        #: Whether a pod that is gated when it is added keeps its nomination (1.37) or not (1.36).
        self._gated_pods_are_nominated: bool = not cluster.feature_gates.is_1_36
        #: Whether the initial lists are complete: before that no pod was tried, so no event requeues one.
        self._listed = False

    def mark_synced(self) -> None:
        """Mark the initial lists as complete, sort the queue by what they say, and run PreEnqueue for gated pods."""
        self._listed = True
        if self.profiles.sort_by_objects:
            for pending in self.pending.values():
                self.queue.update(pending)
        for pod in self.queue.recheck_gates():
            self._take_nomination(pod)

    def follow_profiles(self, changes: ProfileChanges) -> None:
        """Give up the pods of removed profiles, take those of added ones, and retry those of others that need it.

        A pod that is reserved on a node already stays until its binding ends.
        """
        given_up = [pod for pod in self.pending.values() if pod.scheduler_name in changes.removed]
        for pod in given_up:
            if pod.uid not in self.cluster.assumed:
                self.give_up(pod.uid)
        for foreign in list(self.foreign.values()):
            if foreign.spec.profile_name in self.profiles:
                self._upsert_pending_pod(foreign)
        if changes.holding:
            for pod in self.queue.retry_profiles(changes.holding):
                self._take_nomination(pod)

    def give_up(self, uid: str) -> None:
        """Leave a pod that waits here to other schedulers."""
        self.queue.delete(uid)
        self.cluster.nominator.remove(uid)
        self.foreign[uid] = self.pending[uid].object
        self._forget_pending(uid)

    def upsert(self, obj: ApiObject) -> None:
        if isinstance(obj, Pod):
            if obj.spec.node_name:
                self._upsert_assigned_pod(obj)
            else:
                self._upsert_pending_pod(obj)
        elif isinstance(obj, Node):
            old_node = self.cluster.put_node(obj)
            if old_node is None:
                _log_event("Add event for node", obj)
                self.on_event(ObservedEvent(EventResource.NODE, ActionType.ADD, None, obj))
                return
            for action in node_updates(old_node, obj):
                self.on_event(ObservedEvent(EventResource.NODE, action, old_node, obj))
        else:
            old = self.cluster.objects(type(obj)).put(obj.metadata, obj)
            if type(obj) not in self.silent_kinds and self.queue.has_waiting_pods:
                action = ActionType.ADD if old is None else ActionType.UPDATE
                self.on_event(ObservedEvent(event_resource(kind_of(obj)), action, old, obj))

    def delete(self, obj: ApiObject) -> None:
        if isinstance(obj, Pod):
            self._delete_pod(obj)
        elif isinstance(obj, Node):
            _log_event("Delete event for node", obj)
            self.on_event(ObservedEvent(EventResource.NODE, ActionType.DELETE, obj, None))
            self.cluster.remove_node(obj.metadata.name)
            self._retry_nominated_pods(obj.metadata.name)
        else:
            self.cluster.objects(type(obj)).remove(obj.metadata)
            if type(obj) not in self.silent_kinds:
                self.on_event(ObservedEvent(event_resource(kind_of(obj)), ActionType.DELETE, obj, None))

    def _retry_nominated_pods(self, node_name: str) -> None:
        """Try the pods again that waited for room on a node that is gone; no plugin registers that for them."""
        for uid, nominated_node in list(self.cluster.nominator.nodes.items()):
            if nominated_node == node_name:
                self.queue.activate(uid)

    def on_event(self, event: ObservedEvent, only: Callable[[PendingPod], bool] | None = None) -> None:
        if self._listed and self.queue.has_waiting_pods:
            self.queue.move_on_event(event, only)

    def nominate(self, pod: PendingPod, node_name: str) -> None:
        """Nominate a pod to a node, replacing its earlier nomination; "" clears it.

        If the earlier nomination existed only in memory, no pod update ends it, so other pods are requeued here.
        """
        before = self.cluster.nominator.nominated_node(pod.uid)
        self.cluster.nominator.nominate(pod, node_name)
        if before not in ("", node_name, pod.nominated_node_name):
            self._wake_lower_priority(_with_nomination(pod, before), pod.uid)

    # -- pods on nodes ---------------------------------------------------------------------------------------------

    def confirm_binding(self, pod: Pod, version: str) -> None:
        """Apply the binding of a pod that is otherwise unchanged since this resource version."""
        uid = pod.metadata.uid
        pending = self.pending.get(uid)
        if (
            pending is None
            or pending.object.metadata.resource_version != version
            or not self.cluster.confirm(pending, pod)
        ):
            self._upsert_assigned_pod(pod)
            return
        self._forget_pending(uid)
        _log_event("Add event for scheduled pod", pod)
        self.cluster.nominator.remove(uid)
        if self.queue.has_waiting_pods:
            self.on_event(ObservedEvent(EventResource.ASSIGNED_POD, ActionType.ADD, None, self.cluster.pods[uid]))
        if pending.nominated_node_name not in ("", pod.spec.node_name):
            self._wake_lower_priority(pending)

    def _upsert_assigned_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.foreign.pop(uid, None)
        confirmed = uid not in self.cluster.pods or uid in self.cluster.assumed
        old = self.cluster.put_pod(pod)
        new = self.cluster.pods[uid]
        pending = self._forget_pending(uid)
        if confirmed:
            _log_event("Add event for scheduled pod", pod)
            # Bound by this scheduler or another: it no longer waits.
            self.queue.delete(uid)
            self.cluster.nominator.remove(uid)
            self.on_event(ObservedEvent(EventResource.ASSIGNED_POD, ActionType.ADD, None, new))
            if pending is not None and pending.nominated_node_name not in ("", new.node_name):
                self._wake_lower_priority(pending)
            return
        assert old is not None
        for action in pod_updates(old, new):
            self.on_event(ObservedEvent(EventResource.ASSIGNED_POD, action, old, new))

    def update_status(self, pod: Pod) -> None:
        """Apply a new status of a pod on a node that is otherwise unchanged."""
        uid = pod.metadata.uid
        old = self.cluster.pods.get(uid)
        if old is None or not self.cluster.put_status(old, pod.status):
            self._upsert_assigned_pod(pod)
        elif self.queue.has_waiting_pods:
            new = self.cluster.pods[uid]
            for action in pod_updates(old, new):
                self.on_event(ObservedEvent(EventResource.ASSIGNED_POD, action, old, new))

    # -- pending pods ----------------------------------------------------------------------------------------------

    def _upsert_pending_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        group = pod.spec.scheduling_group
        if group is not None and group.pod_group_name:
            self.cluster.groups.add(uid, (pod.metadata.namespace, group.pod_group_name))
        old = self.pending.get(uid)
        if old is None and pod.spec.profile_name not in self.profiles:
            self.foreign[uid] = pod
            return
        self.foreign.pop(uid, None)
        if old is not None and old.object.metadata.resource_version == pod.metadata.resource_version != "":
            return
        new = PendingPod(pod, self.cluster.interner, old)
        self.pending[uid] = new
        for callback in self.cluster.pending_callbacks:
            callback(old, new)
        if uid in self.cluster.assumed:
            if new.terminating and (old is None or not old.terminating):
                self._remove_assumed_pod(uid)
        elif old is None:
            _log_event("Add event for unscheduled pod", pod)
            self.queue.add(new)
            self._take_nomination(new)
            self._on_waiting_pod(ActionType.ADD, None, new)
        else:
            self._update_pending_pod(old, new)

    def _on_waiting_pod(self, action: ActionType, old: PendingPod | None, new: PendingPod) -> None:
        """Requeue pods for what happens to another one that waits, if a plugin registered that: it may complete a gang.

        As in kube-scheduler, a registration for all kinds of pods alone does not ask for it.
        """
        if self._listed and self.queue.has_waiting_pods and self.profiles.follows_waiting_pods(action):
            self.on_event(ObservedEvent(EventResource.UNSCHEDULED_POD, action, old, new))

    def _forget_pending(self, uid: str) -> PendingPod | None:
        """Drop a pod from the pending ones and return it; None if it was not there."""
        pending = self.pending.pop(uid, None)
        if pending is not None:
            for callback in self.cluster.pending_callbacks:
                callback(pending, None)
        return pending

    def _take_nomination(self, pod: PendingPod) -> None:
        """Keep room for a new pod on the node to which the API has it nominated."""
        if pod.nominated_node_name and (self._gated_pods_are_nominated or self.queue.queue_of(pod.uid) == "active"):
            self.cluster.nominator.nominate(pod, pod.nominated_node_name)

    def _update_pending_pod(self, old: PendingPod, new: PendingPod) -> None:
        events = [*pod_update_events(old, new)]
        if new.uid in self.queue.in_flight:
            for event in events:
                self.queue.in_flight.add(event)
        else:
            self.queue.update(new, events)
        for event in events:
            self._on_waiting_pod(event.action, old, new)
        before, after = old.nominated_node_name, new.nominated_node_name
        nominator = self.cluster.nominator
        if before or after or not nominator.nominated_node(new.uid):
            nominator.nominate(new, after)
        else:
            # Neither object has the nomination that this scheduler holds in memory: keep it.
            nominator.nominate(new, nominator.nominated_node(new.uid))
        if before and (before != after or ActionType.UPDATE_POD_SCALE_DOWN in pod_updates(old, new)):
            self._wake_lower_priority(old, new.uid)

    # -- deleted pods ----------------------------------------------------------------------------------------------

    def _delete_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        pending = self._forget_pending(uid)
        self.foreign.pop(uid, None)
        if uid in self.cluster.groups.group_of:
            self.cluster.groups.remove(uid)
        _log_event("Delete event for scheduled pod" if pod.spec.node_name else "Delete event for unscheduled pod", pod)
        if uid in self.cluster.assumed:
            self._remove_assumed_pod(uid)
            return
        removed = self.cluster.remove_pod(uid)
        self.queue.delete(uid)
        nominated_node = self.cluster.nominator.nominated_node(uid)
        self.cluster.nominator.remove(uid)
        if removed is not None:
            self._notify_room_freed(removed)
        elif pending is not None and (nominated_node or pending.nominated_node_name):
            self._wake_lower_priority(_with_nomination(pending, nominated_node or pending.nominated_node_name))

    def _remove_assumed_pod(self, uid: str) -> None:
        """Handle an assumed pod that is deleted or terminating: reject it in Permit, or forget it at once."""
        reserved = self.cluster.waiting.get(uid)
        assumed = copy.copy(self.cluster.pods[uid])
        if reserved is None or not reserved.reject("", "removed"):
            self.cluster.forget(uid)
        self._notify_room_freed(assumed)

    def _wake_lower_priority(self, nominated: PendingPod, except_uid: str = "") -> None:
        """Requeue pods that a reduced or removed nomination kept off the node, except the pod with this uid."""
        self._notify_room_freed(
            nominated, lambda other: other.priority <= nominated.priority and other.uid != except_uid
        )
        self.on_event(ObservedEvent(EventResource.NOMINATED_POD, ActionType.DELETE, nominated, None))

    def _notify_room_freed(self, pod: PodInfo, only: Callable[[PendingPod], bool] | None = None) -> None:
        self.on_event(ObservedEvent(EventResource.ASSIGNED_POD, ActionType.DELETE, pod, None), only)


def _with_nomination(pod: PendingPod, node_name: str) -> PendingPod:
    nominated = copy.copy(pod)
    nominated.nominated_node_name = node_name
    return nominated


def _log_event(message: str, obj: Pod | Node) -> None:
    if _log.isEnabledFor(V3):
        name = obj.metadata.name
        subject = {"node": name} if isinstance(obj, Node) else {"pod": f"{obj.metadata.namespace}/{name}"}
        _log.log(V3, message, extra=subject, stacklevel=2)
