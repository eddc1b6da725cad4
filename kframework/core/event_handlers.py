"""Handlers that apply cluster events to state and queue, and turn them into the events that wake pods."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable

from kframework.core.queue.scheduling_queue import SchedulingQueue, own_updates
from kframework.core.runtime.profiles import Profiles
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

    `pending` holds the latest version of this scheduler's unassigned pods, by uid.
    """

    def __init__(self, cluster: ClusterState, queue: SchedulingQueue, profiles: Profiles) -> None:
        self.cluster = cluster
        self.queue = queue
        self.profiles = profiles
        self.pending: dict[str, PendingPod] = {}
        #: Whether the initial lists are complete: before that no pod was tried, so no event wakes one.
        self._listed = False

    def synced(self) -> None:
        """Mark the initial lists as complete and run PreEnqueue again for gated pods."""
        self._listed = True
        self.queue.recheck_gates()

    def upserted(self, obj: ApiObject) -> None:
        """Apply a new or changed object."""
        if isinstance(obj, Pod):
            if obj.spec.node_name:
                self._assigned(obj)
            else:
                self._unassigned(obj)
        elif isinstance(obj, Node):
            before = self.cluster.put_node(obj)
            if before is None:
                _say("Add event for node", obj)
                self.on_event(ObservedEvent(EventResource.NODE, ActionType.ADD, None, obj))
                return
            for action in node_updates(before, obj):
                self.on_event(ObservedEvent(EventResource.NODE, action, before, obj))
        else:
            old = self.cluster.objects(type(obj)).put(obj.metadata, obj)
            happened = ActionType.ADD if old is None else ActionType.UPDATE
            self.on_event(ObservedEvent(event_resource(kind_of(obj)), happened, old, obj))

    def deleted(self, obj: ApiObject) -> None:
        """Apply the deletion of an object."""
        if isinstance(obj, Pod):
            self._pod_gone(obj)
        elif isinstance(obj, Node):
            _say("Delete event for node", obj)
            self.on_event(ObservedEvent(EventResource.NODE, ActionType.DELETE, obj, None))
            self.cluster.remove_node(obj.metadata.name)
        else:
            self.cluster.objects(type(obj)).remove(obj.metadata)
            self.on_event(ObservedEvent(event_resource(kind_of(obj)), ActionType.DELETE, obj, None))

    def on_event(self, event: ObservedEvent, only: Callable[[PendingPod], bool] | None = None) -> None:
        """Pass an event to the queue."""
        if self._listed:
            self.queue.move(event, only)

    def nominate(self, pod: PendingPod, node_name: str) -> None:
        """Nominate a pod to a node, replacing its earlier nomination; "" clears it.

        If the earlier nomination existed only in memory, no pod update announces its end, so other pods are woken here.
        """
        before = self.cluster.nominator.nominated_node(pod.uid)
        self.cluster.nominator.nominate(pod, node_name)
        if before not in ("", node_name, pod.nominated_node_name):
            self._let_go(_nominated(pod, before), pod.uid)

    # -- pods on nodes ---------------------------------------------------------------------------------------------

    def bound(self, pod: Pod, version: str) -> None:
        """Apply that a pod is bound and otherwise unchanged since this resource version."""
        uid = pod.metadata.uid
        waited = self.pending.get(uid)
        if (
            waited is None
            or waited.object.metadata.resource_version != version
            or not self.cluster.confirm(waited, pod)
        ):
            self._assigned(pod)
            return
        del self.pending[uid]
        _say("Add event for scheduled pod", pod)
        self.cluster.nominator.remove(uid)
        if self.queue.has_listeners:
            self.on_event(ObservedEvent(EventResource.ASSIGNED_POD, ActionType.ADD, None, self.cluster.pods[uid]))
        if waited.nominated_node_name not in ("", pod.spec.node_name):
            self._let_go(waited)

    def _assigned(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        confirmed = uid not in self.cluster.pods or uid in self.cluster.assumed
        old = self.cluster.put_pod(pod)
        new = self.cluster.pods[uid]
        waited = self.pending.pop(uid, None)
        if confirmed:
            _say("Add event for scheduled pod", pod)
            # Bound by this scheduler or another: it no longer waits.
            self.queue.delete(uid)
            self.cluster.nominator.remove(uid)
            self.on_event(ObservedEvent(EventResource.ASSIGNED_POD, ActionType.ADD, None, new))
            if waited is not None and waited.nominated_node_name not in ("", new.node_name):
                self._let_go(waited)
            return
        assert old is not None
        for action in pod_updates(old, new):
            self.on_event(ObservedEvent(EventResource.ASSIGNED_POD, action, old, new))

    def status_changed(self, pod: Pod) -> None:
        """Take in that a pod on a node has another status, and is as it was otherwise."""
        uid = pod.metadata.uid
        old = self.cluster.pods.get(uid)
        if old is None or not self.cluster.put_status(old, pod.status):
            self._assigned(pod)
        elif self.queue.has_listeners:
            new = self.cluster.pods[uid]
            for action in pod_updates(old, new):
                self.on_event(ObservedEvent(EventResource.ASSIGNED_POD, action, old, new))

    # -- pods that wait --------------------------------------------------------------------------------------------

    def _unassigned(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if (pod.spec.scheduler_name or "default-scheduler") not in self.profiles:
            return
        old = self.pending.get(uid)
        if old is not None and old.object.metadata.resource_version == pod.metadata.resource_version != "":
            return
        new = PendingPod(pod, self.cluster.interner, old)
        self.pending[uid] = new
        if uid in self.cluster.assumed:
            if new.terminating and (old is None or not old.terminating):
                self._assumed_gone(uid)
        elif old is None:
            _say("Add event for unscheduled pod", pod)
            self.queue.add(new)
            if new.nominated_node_name:
                self.cluster.nominator.nominate(new, new.nominated_node_name)
        else:
            self._updated(old, new)

    def _updated(self, old: PendingPod, new: PendingPod) -> None:
        if new.uid in self.queue.in_flight:
            for event in own_updates(old, new):
                self.queue.in_flight.add(event)
        else:
            self.queue.update(new)
        before, after = old.nominated_node_name, new.nominated_node_name
        nominator = self.cluster.nominator
        if before or after or not nominator.nominated_node(new.uid):
            nominator.nominate(new, after)
        else:
            # Neither object has the nomination that this scheduler holds in memory: keep it.
            nominator.nominate(new, nominator.nominated_node(new.uid))
        if before and (before != after or ActionType.UPDATE_POD_SCALE_DOWN in pod_updates(old, new)):
            self._let_go(old, new.uid)

    # -- pods that go ----------------------------------------------------------------------------------------------

    def _pod_gone(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        waited = self.pending.pop(uid, None)
        _say("Delete event for scheduled pod" if pod.spec.node_name else "Delete event for unscheduled pod", pod)
        if uid in self.cluster.assumed:
            self._assumed_gone(uid)
            return
        removed = self.cluster.remove_pod(uid)
        self.queue.delete(uid)
        kept_room_on = self.cluster.nominator.nominated_node(uid)
        self.cluster.nominator.remove(uid)
        if removed is not None:
            self._freed(removed)
        elif waited is not None and (kept_room_on or waited.nominated_node_name):
            self._let_go(_nominated(waited, kept_room_on or waited.nominated_node_name))

    def _assumed_gone(self, uid: str) -> None:
        """Handle an assumed pod that is deleted or terminating: end its wait, or forget it at once."""
        reserved = self.cluster.waiting.get(uid)
        was = copy.copy(self.cluster.pods[uid])
        if reserved is None or not reserved.reject("", "removed"):
            self.cluster.forget(uid)
        self._freed(was)

    def _let_go(self, nominated: PendingPod, asleep: str = "") -> None:
        """Wake pods that a reduced or removed nomination kept off the node.

        The pod with the uid `asleep` is not woken.
        """
        self._freed(nominated, lambda other: other.priority <= nominated.priority and other.uid != asleep)

    def _freed(self, pod: PodInfo, only: Callable[[PendingPod], bool] | None = None) -> None:
        self.on_event(ObservedEvent(EventResource.ASSIGNED_POD, ActionType.DELETE, pod, None), only)


def _nominated(pod: PendingPod, node_name: str) -> PendingPod:
    """Return the pod as one that is nominated to this node."""
    was = copy.copy(pod)
    was.nominated_node_name = node_name
    return was


def _say(happened: str, obj: Pod | Node) -> None:
    """Log that a pod or node was added or removed."""
    if _log.isEnabledFor(V3):
        name = obj.metadata.name
        subject = {"node": name} if isinstance(obj, Node) else {"pod": f"{obj.metadata.namespace}/{name}"}
        _log.log(V3, happened, extra=subject, stacklevel=2)
