"""Which updates of a pending pod are events to it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kframework.core.queue.pod_updates import pod_update_events, seen_by
from kframework.framework.events import ActionType, EventResource, ObservedEvent
from kframework.objects import Pod, PodCondition
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import make_pod

POD = make_pod(labels={"app": "web"})
VERDICT = replace(POD.status, conditions=(PodCondition(type="PodScheduled", status="False"),), nominated_node_name="a")
READY = replace(POD.status, conditions=(PodCondition(type="example.com/Ready", status="True"),))


@pytest.mark.parametrize(
    ("new", "actions"),
    [
        (replace(POD, status=VERDICT), []),
        (replace(POD, status=READY), [ActionType.UPDATE]),
        (make_pod(labels={"app": "shop"}), [ActionType.UPDATE_POD_LABEL]),
    ],
    ids=["verdict of a scheduler", "other condition", "label"],
)
def test_verdict_of_a_scheduler_is_no_event(new: Pod, actions: list[ActionType]) -> None:
    before, after = (PendingPod(pod, TemplateInterner()) for pod in (POD, new))
    assert [event.action for event in pod_update_events(before, after)] == actions


def test_update_of_another_pod_is_seen_as_that_of_an_unscheduled_one() -> None:
    pod = PendingPod(POD, TemplateInterner())
    event = ObservedEvent(EventResource.TARGET_POD, ActionType.UPDATE, pod, pod)
    assert seen_by(pod.uid, event) is event
    assert seen_by("other", event).resource == EventResource.UNSCHEDULED_POD
