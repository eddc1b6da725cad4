"""Coscheduling: a gang's pods wait at Permit for one another, and give their nodes back once it cannot be whole."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from typing import Annotated, ClassVar

import anyio
from pydantic import Field

from kframework import (
    NOTHING,
    ActionType,
    ClusterEvent,
    CycleState,
    Diagnosis,
    EventResource,
    Handle,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    PodInfo,
    QueuedPod,
    QueueingHint,
    StateKey,
    Status,
    Wait,
    WaitingPod,
    Watch,
    hookimpl,
    unresolvable,
    unschedulable,
)
from kframework.clock import seconds_of
from kframework_coscheduling.gangs import Gangs, PodGang, gang_key, missing_room
from kframework_coscheduling.pod_groups import PodGroup
from kframework_coscheduling.status import GroupStatusWriter

#: Whether this plugin itself held the pod back before any node was looked at.
_HELD_BACK = StateKey[bool]("Coscheduling/held back")

#: How long a pod waits for its gang if neither the Args nor the group say so, in seconds.
_DEFAULT_WAIT = 60.0

_GROUP_EVENT = "podgroups.v1alpha1.scheduling.x-k8s.io"

#: How long after a gang gave up its pods may still be woken by the nodes that it gave back: kube-scheduler's longest
#: backoff, in seconds.
_OWN_WAKES = 10.0


class CoschedulingArgs(PluginArgs):
    """The Args of scheduler-plugins, with their names and defaults."""

    permit_waiting_time_seconds: Annotated[int, Field(ge=0)] = 60
    """The seconds for which a pod waits for its gang, unless its PodGroup has scheduleTimeoutSeconds; 0 is 60."""
    pod_group_backoff_seconds: Annotated[int, Field(ge=0)] = 0
    """The seconds for which a gang that gave up is not tried, whatever happens in the cluster."""
    pod_group_reject_percentage: Annotated[int, Field(ge=0, le=100)] = 10
    """Accepted and not used: a gang gives up when too few of its pods are left to try, which needs no guess."""


class Coscheduling(Plugin[CoschedulingArgs]):
    """Start the pods that name a PodGroup together, `minMember` of them at least, or none."""

    name: ClassVar[str] = "Coscheduling"
    sign_reads = ()
    watches: ClassVar[tuple[Watch, ...]] = (Watch(PodGroup, verbs=("patch_status",)),)

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._status = GroupStatusWriter(handle)
        self._gangs = Gangs(handle, self._status.request)
        handle.on_change(PodGroup, self._group_changed)

    async def start(self) -> None:
        self._status.start()

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        return NOTHING if gang_key(pod) is None else None

    # -- before a node is found ----------------------------------------------------------------------------------------

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> Hashable:
        """Order by priority, then by the age of the gang or pod; a gang that gave up is as old as that.

        The name of the gang comes next, so that gangs of the same second do not mix.
        """
        pod, arrived = queued.pod, queued.timestamp if queued.initial_attempt is None else queued.initial_attempt
        group = self._gangs.group(pod)
        if group is None:
            return (-pod.priority, arrived, pod.key, arrived, pod.name)
        created, age = group.metadata.creation_timestamp, self._gangs.find(pod).failed_at
        if age is None:
            age = seconds_of(created) if created else arrived
        return (-pod.priority, age, f"{pod.namespace}/{group.metadata.name}", arrived, pod.name)

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        problem = self._problem(pod)
        if problem is None:
            return None
        state[_HELD_BACK] = True
        return unresolvable(problem)

    def _problem(self, pod: PendingPod) -> str | None:
        """Return why trying the pod is pointless; None if it is not."""
        gang, group = self._gangs.find(pod), self._gangs.group(pod)
        if group is None:
            return None if gang_key(pod) is None else "PodGroup not found"
        name, minimum = f"PodGroup {group.metadata.namespace}/{group.metadata.name}", group.spec.min_member
        if self.handle.clock.now() < gang.backs_off_until:
            return f"{name} failed recently"
        if pod.uid in gang.beaten:
            return f"{name} did not fit, and nothing has made room since"
        if gang.reachable(pod.uid) < minimum:
            return f"{name} {_shortage(gang, minimum, pod)}"
        # Once a pod waits for the others, the check was passed.
        if group.spec.min_resources is not None and not any(self._waiting(gang)):
            missing = missing_room(group, gang.placed.values(), self.handle.nodes)
            if missing:
                return f"{name} needs more than all nodes have left: {missing}"
        return None

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Status | None:
        gang, group = self._gangs.find(pod), self._gangs.group(pod)
        if _HELD_BACK in state or group is None:
            gang.failed.discard(pod.uid)  # it was tried again, so it need not be missing when others are
            if pod.uid in gang.beaten:
                self._bring_back(gang)
            return unschedulable()
        if self._waits_for_victims(pod, diagnosis):
            return unschedulable()
        gang.failed.add(pod.uid)
        if gang.reachable() >= group.spec.min_member:
            return unschedulable()
        self._give_up(gang, {*gang.pending}, f"gang cannot be whole: pod {pod.name} found no node")
        return unschedulable(f"PodGroup {group.metadata.namespace}/{group.metadata.name} cannot be whole")

    def _waits_for_victims(self, pod: PendingPod, diagnosis: Diagnosis) -> bool:
        """Return whether the pod will have a node when the pods that it preempts have ended."""
        never = pod.spec.preemption_policy == "Never"
        return not never and self.handle.preemption.blocked_reason(pod, diagnosis) is not None

    # -- once a node is found ------------------------------------------------------------------------------------------

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Wait | None:
        gang, group = self._gangs.find(pod), self._gangs.group(pod)
        if group is None:
            return unschedulable("PodGroup not found")
        gang.failed.discard(pod.uid)
        if self._admit_if_whole(gang, group):
            return None
        if not any(self._waiting(gang)):
            gang.beaten.clear()
            self.handle.activate(list(gang.candidates()))
        gang.waiting.add(pod.uid)
        timeout = group.spec.schedule_timeout_seconds
        return Wait(float(timeout if timeout is not None else self.args.permit_waiting_time_seconds or _DEFAULT_WAIT))

    def _admit_if_whole(self, gang: PodGang, group: PodGroup) -> bool:
        """Let the waiting pods of a gang go if enough of it have nodes; return whether they have."""
        if gang.assigned < group.spec.min_member:
            return False
        gang.failed_at = None
        for waiting in self._waiting(gang):
            waiting.allow(self.name)
        gang.waiting.clear()
        return True

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        gang = self._gangs.find(pod)
        if pod.uid in gang.waiting:
            self._give_up(gang, {pod.uid}, f"gang lost pod {pod.name}")

    def _give_up(self, gang: PodGang, beaten: Collection[str], why: str) -> None:
        """Give back the nodes of all pods of a gang that wait, and let other pods go first next time.

        What they give back wakes the pods that failed for lack of it; `beaten` keeps the gang from trying again.
        """
        gang.failed_at = self.handle.clock.now()
        waiting = list(self._waiting(gang))
        if waiting:
            gang.beaten.update(beaten, gang.waiting)
        gang.waiting.clear()
        for each in waiting:
            each.reject(self.name, why)
        if self.args.pod_group_backoff_seconds:
            gang.backs_off_until = gang.failed_at + self.args.pod_group_backoff_seconds
            self.handle.spawn(self._retry_after_backoff(gang))

    def _bring_back(self, gang: PodGang) -> None:
        """Try a gang again if something woke one of its pods that only other plugins follow, such as a larger quota."""
        if self.handle.clock.now() > (gang.failed_at or 0.0) + _OWN_WAKES:
            gang.beaten.clear()
            self.handle.activate(list(gang.candidates()))

    async def _retry_after_backoff(self, gang: PodGang) -> None:
        await anyio.sleep(gang.backs_off_until - self.handle.clock.now())
        self.handle.activate(list(gang.candidates()))

    def _waiting(self, gang: PodGang) -> Iterator[WaitingPod]:
        """Yield the pods of a gang that wait at Permit."""
        for uid in gang.waiting:
            waiting = self.handle.waiting_pod(uid)
            if waiting is not None:
                yield waiting

    # -- what brings a gang back ---------------------------------------------------------------------------------------

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        """Register what changes a gang, and what makes room on nodes."""
        added, changed = ActionType.ADD, ActionType.ADD | ActionType.UPDATE
        left = ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN | ActionType.UPDATE_POD_LABEL
        return [
            ClusterEvent(_GROUP_EVENT, changed, self._after_change, self._members_of_group),
            ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE, self._after_change),
            ClusterEvent(EventResource.UNSCHEDULED_POD, changed, self._after_sibling, self._siblings),
            ClusterEvent(
                EventResource.ASSIGNED_POD, added | ActionType.UPDATE_POD_LABEL, self._after_sibling, self._siblings
            ),
            ClusterEvent(EventResource.ASSIGNED_POD, left, self._after_departure),
            ClusterEvent(EventResource.NODE, changed, self._after_room),
        ]

    def _members_of_group(self, old: PodGroup | None, new: PodGroup) -> Collection[str]:
        return self._gangs.get((new.metadata.namespace, new.metadata.name)).pending.keys()

    def _siblings(self, old: PodInfo | None, new: PodInfo) -> Collection[str]:
        return self._gangs.find(new).pending.keys()

    def _after_change(self, pod: PendingPod, old: object, new: object) -> QueueingHint:
        return QueueingHint.QUEUE if self._problem(pod) is None else QueueingHint.SKIP

    def _after_sibling(self, pod: PendingPod, old: PodInfo | None, new: PodInfo) -> QueueingHint:
        """Wake a gang when one of its pods changes; a further one may take the place of one that found no node."""
        is_further = old is None or gang_key(old) != gang_key(new)
        return self._after_room(pod, old, new) if is_further else self._after_change(pod, old, new)

    def _after_departure(self, pod: PendingPod, old: PodInfo, new: PodInfo | None) -> QueueingHint:
        """Wake a gang when a pod leaves its node, unless it was not bound to it: gangs that give up wake each other."""
        return QueueingHint.SKIP if isinstance(old, PendingPod) else self._after_room(pod, old, new)

    def _after_room(self, pod: PendingPod, old: object, new: object) -> QueueingHint:
        self._gangs.find(pod).beaten.clear()
        return self._after_change(pod, old, new)

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Follow a new minimum, and write the status of a group that is new or whose minimum changed."""
        if new is None or (old is not None and old.spec == new.spec):
            return
        key = (new.metadata.namespace, new.metadata.name)
        gang = self._gangs.get(key)
        gang.beaten.clear()
        self._admit_if_whole(gang, new)
        self._status.request(key)


def _shortage(gang: PodGang, minimum: int, pod: PendingPod) -> str:
    """Say why too few pods of a gang can have a node even if this one finds one."""
    if gang.size < minimum:
        return f"has {gang.size} of {minimum} pods"
    candidates = list(gang.candidates())
    if gang.assigned + len(candidates) < minimum:
        return "waits for pods with scheduling gates"
    missing = (other.name for other in candidates if other.uid in gang.failed and other.uid != pod.uid)
    return f"waits for room for pod {min(missing)}"
