"""PodGroupPodsCount: prefer sets of nodes where more pods of a PodGroup get nodes."""

from __future__ import annotations

from collections.abc import Sequence

from kframework.framework.answers import PlacedGroup
from kframework.framework.plugin import Plugin, hookimpl
from kframework.objects import PodGroup
from kframework.state.nodes import NodeTable
from kframework.values.scores import MAX_SCORE


class PodGroupPodsCount(Plugin):
    """Score by the number of pods of the group that would be on nodes, as a share of the largest one."""

    name = "PodGroupPodsCount"

    @hookimpl
    def placement_score(self, group: PodGroup, placed: Sequence[PlacedGroup], nodes: NodeTable) -> list[int]:
        scheduled = self.handle.pod_groups.members(group.metadata.namespace, group.metadata.name).scheduled
        counts = [scheduled + len(each.nodes) for each in placed]
        return [count * MAX_SCORE // max(counts) for count in counts]
