"""PodGroupPodsCount prefers placements with more pods of the group."""

from __future__ import annotations

import numpy as np

from kframework.framework.answers import GroupPlacement, PlacedGroup
from kframework.plugins.pod_group_pods_count import PodGroupPodsCount
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import stub_handle
from kframework.values.status import Code, Status
from tests.support.groups import gang, members


def test_score_is_the_share_of_the_largest_number_with_the_scheduled_pods() -> None:
    handle = stub_handle()
    handle.pod_groups.add("before", ("default", "g"))
    handle.pod_groups.assign("before", ("default", "g"))
    pods = [PendingPod(pod, TemplateInterner()) for pod in members("g", 5)]
    placement = GroupPlacement("", np.zeros(0, dtype=np.int64))
    placed = [PlacedGroup(placement, tuple(pods[:count]), lambda: ()) for count in (5, 1, 3)]
    plugin = PodGroupPodsCount(PodGroupPodsCount.Args(), handle)
    assert plugin.placement_score(gang("g", 1), placed, handle.nodes) == [100, 33, 66]


def test_placements_without_any_pod_are_an_error() -> None:
    handle, placement = stub_handle(), GroupPlacement("", np.zeros(0, dtype=np.int64))
    plugin = PodGroupPodsCount(PodGroupPodsCount.Args(), handle)
    text = "no pods from pod group are assigned to any of the candidate placements"
    empty = [PlacedGroup(placement, (), lambda: ())] * 2
    assert plugin.placement_score(gang("g", 1), empty, handle.nodes) == Status(Code.ERROR, (text,))
