from __future__ import annotations

from kframework import ClusterError, CycleState, Handle, PendingPod, Status, error
from kframework.plugins.default_binder import DefaultBinder
from kframework.testing import make_pod
from tests.plugins.asking import made, pending
from tests.plugins.conftest import FakeApi


async def test_pod_is_bound_through_the_api(handle: Handle, api: FakeApi) -> None:
    pod = pending(make_pod())
    assert await answer(handle, pod) is None
    assert api.bound == [(pod.uid, "n1")]


async def test_refusal_has_the_words_of_the_api(handle: Handle, api: FakeApi) -> None:
    text = 'Operation cannot be fulfilled on pods/binding "pod": pod pod is already assigned to node "n2"'
    api.refusal = ClusterError(text, status=409, reason="Conflict")
    assert await answer(handle, pending(make_pod())) == error(text)


async def test_immediate_binding_is_answered_without_waiting(handle: Handle, api: FakeApi) -> None:
    api.answers_at_once = True
    pod = pending(make_pod())
    assert made(DefaultBinder, handle=handle).bind(CycleState(), pod, "n1") is None
    assert api.bound == [(pod.uid, "n1")]


async def answer(handle: Handle, pod: PendingPod) -> Status | None:
    binding = made(DefaultBinder, handle=handle).bind(CycleState(), pod, "n1")
    assert binding is not None
    return await binding
