"""TeamQuota: no team's pods take more than the Args grant it, whatever namespaces they live in.

Which team a pod belongs to, a label says. Nothing is kept here: what a team uses is what its pods on nodes take.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import BaseModel, Field

from kframework import (
    ActionType,
    ClusterEvent,
    CycleState,
    EventResource,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    PodInfo,
    QueueingHint,
    Status,
    hookimpl,
    unresolvable,
)

__all__ = ["Share", "TeamQuota", "TeamQuotaArgs"]

#: The scheduler counts milli-CPU and bytes: how many make a unit of the Args, and what that is called.
UNITS = {"cpu": (1000, "cpu"), "memory": (2**30, "Gi of memory")}

Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Share(BaseModel):
    """What a team may take: `cpu` in cores, `memoryGi`; what is not named has no limit."""

    cpu: Amount | None = None
    memory_gi: Amount | None = None

    def limits(self) -> dict[str, float]:
        """Return what is limited, in the units of the Args."""
        limits = {"cpu": self.cpu, "memory": self.memory_gi}
        return {resource: limit for resource, limit in limits.items() if limit is not None}


class TeamQuotaArgs(PluginArgs):
    """What `pluginConfig` may say: the share of each of the `teams`, by the value of a pod's `label`."""

    label: str = "team"
    teams: dict[str, Share] = {}


class TeamQuota(Plugin[TeamQuotaArgs]):
    """Hold pods of a team that has used up its share."""

    name = "TeamQuota"

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        # Held here, a pod waits without being tried, and is in nobody's way.
        return self._rejection(pod)

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        # One pod that leaves may let in ten, which look at the same room. Attempts come one after the other, and a pod
        # counts from the moment it has a place, so here the second finds what the first has left.
        return self._rejection(pod)

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        less = ActionType.UPDATE_POD_SCALE_DOWN | ActionType.UPDATE_POD_LABEL
        return [
            ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE | less, self.after_change),
            ClusterEvent(EventResource.TARGET_POD, less),
        ]

    def after_change(self, pod: PendingPod, old: PodInfo, new: PodInfo | None) -> QueueingHint:
        # Only what one's own team gives back helps.
        return QueueingHint.QUEUE if self._team(old) == self._team(pod) else QueueingHint.SKIP

    def _rejection(self, pod: PendingPod) -> Status | None:
        team = self._team(pod)
        share = self.args.teams.get(team)
        if share is None:
            return None
        requests, used = dict(pod.on_node), self._used(team)
        for resource, limit in share.limits().items():
            unit, words = UNITS[resource]
            requested, in_use = requests.get(resource, 0), used[resource]
            # A pod that asks for nothing of it may go, even where others have more than the share by now.
            if requested and in_use + requested > round(limit * unit):
                # Unresolvable: preemption, which looks at nodes one by one, would evict pods in vain.
                return unresolvable(f"team {team} has less left of its {limit:g} {words} than requested")
        return None

    def _used(self, team: str) -> Counter[str]:
        """Add up what the team's pods take, those included that have a place and are being bound.

        This looks at every pod on a node, though only for pods of teams with a share. So it is right after a restart,
        and whichever scheduler bound the pods; a count kept in `reserve` would know of this scheduler's pods only.
        """
        used: Counter[str] = Counter()
        for pod in self.handle.pods.values():
            if self._team(pod) == team:
                used.update(dict(pod.on_node))
        return used

    def _team(self, pod: PodInfo) -> str:
        return pod.labels.get(self.args.label, "")
