"""Binding and eviction."""

from __future__ import annotations

import pytest

from kframework.objects import LabelSelector, Node, ObjectMeta, Pod, PodDisruptionBudget
from kframework.objects.workloads import PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from tests.fake_api.local_api import MERGE, PODS, Json, LocalApi, pod, read

COMPLETED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def to(node: str, **metadata: object) -> Json:
    return {"kind": "Binding", "apiVersion": "v1", "metadata": metadata, "target": {"kind": "Node", "name": node}}


async def test_valid_binding_binds_the_pod() -> None:
    labels = {"topology.kubernetes.io/zone": "z"}
    api = LocalApi(Node(metadata=ObjectMeta(name="n1", labels=labels)))
    created = await api.call("POST", PODS, pod())
    uid = created["metadata"]["uid"]
    response = await api.send("POST", f"{PODS}/web/binding", to("n1", name="web", uid=uid, annotations={"a": "b"}))
    assert (response.status, read(response.body)) == (201, COMPLETED)
    bound = await api.call("GET", f"{PODS}/web")
    assert bound["spec"] == created["spec"] | {"nodeName": "n1"}
    assert (bound["metadata"]["labels"], bound["metadata"]["annotations"]) == (labels, {"a": "b"})
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


async def test_pod_is_bound_through_the_bindings_of_its_namespace() -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod())
    path = PODS.replace("/pods", "/bindings")
    assert (await api.send("POST", path, to("n1", name="web"))).status == 201
    assert (await api.call("GET", f"{PODS}/web"))["spec"]["nodeName"] == "n1"
    assert (await api.call_error("POST", path, to("n1", name="absent")))[:2] == (404, "NotFound")


@pytest.mark.parametrize(
    ("binding", "status", "message"),
    [
        (
            to("n2"),
            409,
            'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n1"',
        ),
        (
            to("n2", uid="other"),
            409,
            'Operation cannot be fulfilled on pods "web": Precondition failed: UID in precond',
        ),
        (to("n2", name="other"), 400, "the name of the object (other) does not match the name on the URL (web)"),
        (to(""), 422, 'Binding "web" is invalid: target.name: Required value'),
        (
            {"target": {"kind": "Pod", "name": "x"}},
            422,
            'Binding "web" is invalid: target.kind: Unsupported value: "Pod"',
        ),
        ({"target": "n2"}, 400, "cannot decode the body of the request: target: expected a mapping, got a string"),
    ],
)
async def test_invalid_binding_is_rejected(binding: Json, status: int, message: str) -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod())
    await api.call("POST", f"{PODS}/web/binding", to("n1"))
    refused = await api.call_error("POST", f"{PODS}/web/binding", binding)
    assert refused[0] == status
    assert refused[2].startswith(message)
    assert (await api.call_error("POST", f"{PODS}/nobody/binding", to("n1")))[:2] == (404, "NotFound")


def budget(name: str = "b", allowed: int = 0, **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels)),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed, current_healthy=2, desired_healthy=2),
    )


async def run_cluster(*budgets: PodDisruptionBudget) -> LocalApi:
    """Serve a pod that runs, and its budgets."""
    api = LocalApi(*budgets)
    await api.call("POST", PODS, pod(labels={"app": "x"}))
    await api.call("POST", f"{PODS}/web/binding", to("n1"))
    return api


EVICTION: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web", "namespace": "default"}}


@pytest.mark.parametrize("budgets", [[], [budget(app="other")]])
async def test_pod_without_a_budget_is_evicted(budgets: list[PodDisruptionBudget]) -> None:
    api = await run_cluster(*budgets)
    response = await api.send("POST", f"{PODS}/web/eviction", EVICTION)
    assert (response.status, read(response.body)) == (201, COMPLETED)
    assert api.cluster.read(Pod, "web", "default").metadata.deletion_grace_period_seconds == 30


async def test_eviction_is_charged_to_the_budget() -> None:
    api = await run_cluster(budget(allowed=1, app="x"))
    await api.call("POST", f"{PODS}/web/eviction", EVICTION | {"deleteOptions": {"gracePeriodSeconds": 7}})
    assert api.cluster.read(Pod, "web", "default").metadata.deletion_grace_period_seconds == 7
    status = api.cluster.read(PodDisruptionBudget, "b", "default").status
    assert (status.disruptions_allowed, status.disrupted_pods) == (0, {"web": "2026-01-01T00:00:00Z"})


async def test_exhausted_budget_rejects_an_eviction() -> None:
    api = await run_cluster(budget(app="x"))
    response = await api.send("POST", f"{PODS}/web/eviction", EVICTION)
    answer = read(response.body)
    assert (response.status, answer["reason"]) == (429, "TooManyRequests")
    assert answer["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert answer["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 2 healthy pods and has 2 currently",
        }
    ]
    assert "retry-after" not in response.headers
    assert api.cluster.read(Pod, "web", "default").metadata.deletion_timestamp is None


async def test_pending_pod_is_evicted_without_its_budget() -> None:
    api = LocalApi(budget(app="x"))
    await api.call("POST", PODS, pod(labels={"app": "x"}))
    await api.call("POST", f"{PODS}/web/eviction", EVICTION)
    assert api.cluster.objects(Pod) == []


async def test_invalid_eviction_is_rejected() -> None:
    api = await run_cluster(budget("a", 1, app="x"), budget("b", 1, app="x"))
    status, reason, message = await api.call_error("POST", f"{PODS}/web/eviction", EVICTION)
    assert (status, reason) == (500, "InternalError")
    assert message.startswith("This pod has more than one PodDisruptionBudget")
    other = EVICTION | {"deleteOptions": {"preconditions": {"uid": "other"}}}
    assert (await api.call_error("POST", f"{PODS}/web/eviction", other))[:2] == (409, "Conflict")
    assert (await api.call_error("POST", f"{PODS}/nobody/eviction", EVICTION))[:2] == (404, "NotFound")


async def test_finalized_namespace_is_deleted() -> None:
    stuck = ObjectMeta(name="stuck", namespace="gone", finalizers=("example.com/never",))
    api, path = LocalApi(Pod(metadata=stuck)), "/api/v1/namespaces/gone"
    await api.call("DELETE", path)
    await api.call("PATCH", path, {"spec": {"finalizers": []}}, content_type=MERGE)  # it is not for everybody
    left = await api.call("GET", path)
    assert left["spec"]["finalizers"] == ["kubernetes"]
    await api.call("PUT", f"{path}/finalize", left | {"spec": {}})
    assert (await api.call_error("GET", path))[0] == 404
    await api.call("PATCH", f"{path}/pods/stuck", {"metadata": {"finalizers": None}}, content_type=MERGE)


@pytest.mark.parametrize(("method", "path"), [("GET", "binding"), ("PUT", "eviction"), ("POST", "resize")])
async def test_unsupported_subresource_methods_are_not_allowed(method: str, path: str) -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod())
    assert (await api.call_error(method, f"{PODS}/web/{path}", {}))[:2] == (405, "MethodNotAllowed")
