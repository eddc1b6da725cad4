"""The Python libraries that speak to Kubernetes do their work on the fake API: all of them the same work."""

# mypy: disable-error-code="arg-type, union-attr"
# The libraries take plain data where they name their models, and say of each field of an answer that it may be absent.

# mypy: disable-error-code="arg-type, union-attr, type-var, call-overload, no-untyped-call"
# The libraries take plain data where they name their models, and say of each field of an answer that it may be absent.

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kframework import FakeApi
from kframework.testing import fake_api as serve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.blocks_loop,  # clients read kubeconfigs
    pytest.mark.filterwarnings("ignore:Kubernetes version"),  # kr8s has not heard of 1.36
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning"
    ),  # nor do libraries close all connections
]

#: A JSON document of the API.
Json = dict[str, Any]

LABELS = {"app": "web"}
TEMPLATE: Json = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}


def pod(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": LABELS}, "spec": TEMPLATE["spec"]}


def deployment(replicas: int) -> Json:
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


#: Deployments that are applied: the second by another one, who is refused for the replicas.
APPLY = "application/apply-patch+yaml"
CONFLICT = 'Apply failed with 1 conflict: conflict with "me": .spec.replicas'


@pytest.fixture(scope="module")
def module_api() -> Iterator[FakeApi]:
    with serve() as api:
        yield api


@pytest.fixture
def api(module_api: FakeApi, frozen_heap: None) -> Iterator[FakeApi]:
    module_api.reset()
    yield module_api
    gc.collect()  # what a library leaves open is told of here, and not in the next test of others


def test_kubernetes_client_works_against_the_fake_api(api: FakeApi) -> None:
    from kubernetes import client, watch

    with api.clients.kubernetes() as connection:
        core, apps = client.CoreV1Api(connection), client.AppsV1Api(connection)
        assert core.create_namespaced_pod("default", pod("a")).status.phase == "Pending"
        assert [each.metadata.name for each in core.list_namespaced_pod("default", label_selector="app=web").items] == [
            "a"
        ]
        events = watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=1)
        assert [(event["type"], event["object"].metadata.name) for event in events] == [("ADDED", "a")]
        patched = core.patch_namespaced_pod("a", "default", {"metadata": {"labels": {"tier": "front"}}})
        assert patched.metadata.labels == {**LABELS, "tier": "front"}
        assert apps.create_namespaced_deployment("default", deployment(2)).spec.replicas == 2
        assert apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}}).spec.replicas == 3
        apps.delete_namespaced_deployment("web", "default", propagation_policy="Foreground")
        core.delete_namespaced_pod("a", "default")
        with pytest.raises(client.ApiException) as refused:
            core.read_namespaced_pod("a", "default")
        assert (refused.value.status, refused.value.reason) == (404, "Not Found")


def test_kubernetes_client_applies_server_side(api: FakeApi) -> None:
    from kubernetes import client, dynamic

    with api.clients.kubernetes() as connection:
        resource = dynamic.DynamicClient(connection).resources.get(api_version="apps/v1", kind="Deployment")
        where = {"name": "web", "namespace": "default"}
        applied = resource.server_side_apply(deployment(2), **where, field_manager="me")
        assert [each.manager for each in applied.metadata.managedFields] == ["me"]
        with pytest.raises(client.ApiException) as refused:
            resource.server_side_apply(deployment(3), **where, field_manager="you")
        assert (refused.value.status, json.loads(refused.value.body)["message"]) == (409, CONFLICT)
        forced = resource.server_side_apply(deployment(3), **where, field_manager="you", force_conflicts=True)
        assert forced.spec.replicas == 3


async def test_kubernetes_asyncio_client_works_against_the_fake_api(api: FakeApi) -> None:
    from kubernetes_asyncio import client, watch

    async with await api.clients.kubernetes_asyncio() as connection:
        core, apps = client.CoreV1Api(connection), client.AppsV1Api(connection)
        assert (await core.create_namespaced_pod("default", pod("a"))).status.phase == "Pending"
        listed = await core.list_namespaced_pod("default", label_selector="app=web")
        assert [each.metadata.name for each in listed.items] == ["a"]
        async with watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=1) as events:
            assert [(event["type"], event["object"].metadata.name) async for event in events] == [("ADDED", "a")]
        patched = await core.patch_namespaced_pod("a", "default", {"metadata": {"labels": {"tier": "front"}}})
        assert patched.metadata.labels == {**LABELS, "tier": "front"}
        assert (await apps.create_namespaced_deployment("default", deployment(2))).spec.replicas == 2
        scaled = await apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}})
        assert scaled.spec.replicas == 3
        await apps.delete_namespaced_deployment("web", "default", propagation_policy="Foreground")
        await core.delete_namespaced_pod("a", "default")
        with pytest.raises(client.ApiException) as refused:
            await core.read_namespaced_pod("a", "default")
        assert refused.value.status == 404


async def test_kubernetes_asyncio_client_applies_server_side(api: FakeApi) -> None:
    from kubernetes_asyncio import client

    async with await api.clients.kubernetes_asyncio() as connection:
        apps = client.AppsV1Api(connection)
        where = {"name": "web", "namespace": "default", "_content_type": APPLY}
        await apps.patch_namespaced_deployment(body=deployment(2), **where, field_manager="me")
        with pytest.raises(client.ApiException) as refused:
            await apps.patch_namespaced_deployment(body=deployment(3), **where, field_manager="you")
        assert (refused.value.status, json.loads(refused.value.body)["message"]) == (409, CONFLICT)
        forced = await apps.patch_namespaced_deployment(body=deployment(3), **where, field_manager="you", force=True)
        assert forced.spec.replicas == 3
        assert {each.manager for each in forced.metadata.managed_fields} == {"me", "you"}


def test_lightkube_client_works_against_the_fake_api(api: FakeApi) -> None:
    from lightkube import ApiError
    from lightkube.models.autoscaling_v1 import ScaleSpec
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.apps_v1 import Deployment
    from lightkube.resources.core_v1 import Pod

    client = api.clients.lightkube("me")
    created = client.create(Pod.from_dict(pod("a")))
    assert created.status is not None
    assert created.status.phase == "Pending"
    assert [each.metadata.name for each in client.list(Pod, labels=LABELS) if each.metadata] == ["a"]
    kind, watched = next(iter(client.watch(Pod, server_timeout=1)))
    assert (kind, watched.metadata and watched.metadata.name) == ("ADDED", "a")
    patched = client.patch(Pod, "a", {"metadata": {"labels": {"tier": "front"}}})
    assert patched.metadata is not None
    assert patched.metadata.labels == {**LABELS, "tier": "front"}
    assert client.create(Deployment.from_dict(deployment(2))).spec.replicas == 2
    scale = Deployment.Scale(metadata=ObjectMeta(name="web", namespace="default"), spec=ScaleSpec(replicas=3))
    replaced = client.replace(scale, "web")
    assert replaced.spec is not None
    assert replaced.spec.replicas == 3
    client.delete(Deployment, "web")
    client.delete(Pod, "a")
    with pytest.raises(ApiError, match='pods "a" not found'):
        client.get(Pod, "a")


def test_lightkube_client_applies_server_side(api: FakeApi) -> None:
    from lightkube import ApiError
    from lightkube.resources.apps_v1 import Deployment

    me, you = api.clients.lightkube("me"), api.clients.lightkube("you")
    assert me.apply(Deployment.from_dict(deployment(2)), namespace="default").spec.replicas == 2
    with pytest.raises(ApiError, match="Apply failed with 1 conflict"):
        you.apply(Deployment.from_dict(deployment(3)), namespace="default")
    assert you.apply(Deployment.from_dict(deployment(3)), namespace="default", force=True).spec.replicas == 3


def test_kr8s_client_works_against_the_fake_api(api: FakeApi) -> None:
    import kr8s
    from kr8s.objects import Deployment, Pod

    connection = api.clients.kr8s()
    web = Pod(pod("a"), api=connection)
    web.create()
    assert web.status.phase == "Pending"
    assert [each.name for each in connection.get("pods", label_selector=LABELS)] == ["a"]
    assert next(iter(connection.watch("pods")))[0] == "ADDED"
    web.patch({"metadata": {"labels": {"tier": "front"}}})
    assert web.labels == {**LABELS, "tier": "front"}
    shop = Deployment(deployment(2), api=connection)
    shop.create()
    shop.scale(3)
    assert shop.spec.replicas == 3
    shop.delete()
    web.delete()
    with pytest.raises(kr8s.NotFoundError):
        Pod.get("a", api=connection, timeout=0)


async def test_kr8s_client_applies_server_side(api: FakeApi) -> None:
    import kr8s

    connection = await kr8s.asyncio.api(kubeconfig=str(api.kubeconfig))

    async def apply(body: Json, manager: str, **query: str) -> Json:
        async with connection.call_api(
            "PATCH",
            version="apps/v1",
            namespace="default",
            url="deployments/web",
            params={"fieldManager": manager, **query},
            headers={"Content-Type": APPLY},
            content=json.dumps(body),
        ) as response:
            applied: Json = response.json()
            return applied

    assert (await apply(deployment(2), "me"))["spec"]["replicas"] == 2
    with pytest.raises(kr8s.ServerError, match="Apply failed with 1 conflict"):
        await apply(deployment(3), "you")
    assert (await apply(deployment(3), "you", force="true"))["spec"]["replicas"] == 3


def test_kopf_operator_works_against_the_fake_api(api: FakeApi) -> None:
    """An operator with handlers for creation, deletion and a timer, whose finalizer holds its object until then."""
    asyncio.run(_operate(api))


async def _operate(api: FakeApi) -> None:
    import kopf
    from kubernetes_asyncio import client, watch

    registry, stop, ready = kopf.OperatorRegistry(), asyncio.Event(), asyncio.Event()
    told: list[str] = []
    ticked, gone = asyncio.Event(), asyncio.Event()

    @kopf.on.login(registry=registry)
    def login(**_: object) -> kopf.ConnectionInfo:
        return api.clients.kopf()

    @kopf.on.create("example.com", "v1", "widgets", registry=registry)
    def created(name: str, **_: object) -> dict[str, str]:
        told.append(f"created {name}")
        return {"colour": "red"}

    @kopf.on.delete("example.com", "v1", "widgets", registry=registry)
    def deleted(name: str, **_: object) -> None:
        told.append(f"deleted {name}")
        gone.set()

    @kopf.timer("example.com", "v1", "widgets", interval=0.1, registry=registry)
    def tick(**_: object) -> None:
        ticked.set()

    async with await api.clients.kubernetes_asyncio() as connection:
        await client.ApiextensionsV1Api(connection).create_custom_resource_definition(_widgets())
        objects = client.CustomObjectsApi(connection)
        operator = asyncio.create_task(
            kopf.operator(registry=registry, standalone=True, namespaces=["default"], stop_flag=stop, ready_flag=ready)
        )
        await ready.wait()
        where = ("example.com", "v1", "default", "widgets")
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
        await objects.create_namespaced_custom_object(*where, body)
        await ticked.wait()
        widget = await objects.get_namespaced_custom_object(*where, "w")
        assert widget["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        assert "kopf" in {each["manager"] for each in widget["metadata"]["managedFields"]}
        version = widget["metadata"]["resourceVersion"]
        await objects.delete_namespaced_custom_object(*where, "w")
        await gone.wait()
        watched = watch.Watch().stream(objects.list_namespaced_custom_object, *where, resource_version=version)
        async with watched as events:
            async for event in events:
                if event["type"] == "DELETED":
                    break
        stop.set()
        await operator
    assert told == ["created w", "deleted w"]


def _widgets() -> Json:
    size = {"type": "object", "properties": {"size": {"type": "integer"}}}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": size, "status": status}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": spec,
    }
