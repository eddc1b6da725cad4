"""What a client may say of an object, and what it may not."""

from __future__ import annotations

import pytest

from kframework.objects import ObjectMeta, Pod
from tests.fake_api.local_api import MERGE, NODES, PODS, Json, LocalApi, node, pod


async def test_status_update_of_a_built_in_kind_changes_metadata_too() -> None:
    api, path = LocalApi(), "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    await api.call("POST", path, {"metadata": {"name": "a"}, "spec": {"template": template}})
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"active": 1}}
    job = await api.call("PATCH", f"{path}/a/status", patch, content_type=MERGE)
    assert (job["metadata"]["labels"]["a"], job["status"]) == ("b", {"active": 1})


@pytest.mark.parametrize(("labels", "own"), [({}, {}), ({"app": "x"}, {}), ({"app": "x"}, {"team": "y"})])
async def test_job_without_labels_has_those_of_its_pods(labels: dict[str, str], own: dict[str, str]) -> None:
    template = {
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    job = await LocalApi().call(
        "POST",
        "/apis/batch/v1/namespaces/default/jobs",
        {"metadata": {"name": "a", "labels": own}, "spec": {"template": template}},
    )
    uid = job["metadata"]["uid"]
    unique = {"job-name": "a", "controller-uid": uid}
    of_pods = labels | unique | {f"batch.kubernetes.io/{key}": value for key, value in unique.items()}
    assert job["spec"]["template"]["metadata"]["labels"] == of_pods
    assert job["metadata"]["labels"] == (own or of_pods)


async def test_pods_of_a_template_share_its_spec() -> None:
    api = LocalApi()
    for name in ("a", "b"):
        await api.call("POST", PODS, pod(name))
    first, second = (api.cluster.read(Pod, name, "default") for name in ("a", "b"))
    assert first.spec is second.spec


async def test_all_causes_of_an_invalid_object_are_listed() -> None:
    spec = {"containers": [{"name": "c"}], "restartPolicy": "Sometimes"}
    status, _, message = await LocalApi().call_error("POST", PODS, {"metadata": {"name": "Web"}, "spec": spec})
    assert status == 422
    causes = ("[metadata.name: Invalid", "containers[0].image: Required", "restartPolicy: Unsupported")
    assert all(each in message for each in causes), message


async def test_daemon_set_counts_the_changes_of_its_template() -> None:
    api, path = LocalApi(), "/apis/apps/v1/namespaces/default/daemonsets"
    template: Json = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    created = await api.call("POST", path, {"metadata": {"name": "a"}, "spec": spec})
    annotation = "deprecated.daemonset.template.generation"
    assert created["metadata"]["annotations"] == {annotation: "1"}
    patches: list[tuple[Json, str]] = [
        ({"metadata": {"annotations": {annotation: "7", "x": "y"}}}, "1"),
        ({"spec": {"minReadySeconds": 3}}, "1"),
        ({"spec": {"template": {"metadata": {"labels": {"c": "d"}}}}}, "2"),
    ]
    for patch, generation in patches:
        changed = await api.call("PATCH", f"{path}/a", patch, content_type=MERGE)
        assert changed["metadata"]["annotations"] == {annotation: generation, "x": "y"}


async def test_invalid_new_object_is_rejected() -> None:
    api = LocalApi()
    metadata = {
        "name": "web",
        "uid": "mine",
        "generation": 7,
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "deletionTimestamp": "2020-01-01T00:00:00Z",
        "managedFields": [{"manager": "me"}],
        "selfLink": "/me",
    }
    created = await api.call("POST", PODS, pod() | {"metadata": metadata, "status": {"phase": "Running", "podIP": "x"}})
    assert created["status"] == {"qosClass": "BestEffort", "phase": "Pending"}
    result = created["metadata"]
    assert result["uid"] != "mine"
    assert (result["generation"], result["creationTimestamp"]) == (1, "2026-01-01T00:00:00Z")
    assert not {"managedFields", "selfLink", "deletionTimestamp"} & result.keys()


async def test_pod_needs_a_container() -> None:
    api = LocalApi()
    specs: list[Json] = [{}, {"containers": []}, {"contaners": [{"name": "c"}]}]
    for spec in specs:
        assert await api.call_error("POST", PODS, pod() | {"spec": spec}) == (
            422,
            "Invalid",
            'Pod "web" is invalid: spec.containers: Required value',
        )
    assert api.cluster.add(Pod(metadata=ObjectMeta(name="bare"))).spec.containers == ()


async def test_node_is_created_with_its_status() -> None:
    created = await LocalApi().call("POST", NODES, node())
    assert created["status"]["capacity"] == created["status"]["allocatable"] == {"cpu": "4"}
    assert created["status"]["nodeInfo"] == {"kubeletVersion": "v1.36.0"}


async def test_immutable_fields_cannot_change() -> None:
    api = LocalApi()
    stored = await api.call("POST", PODS, pod())
    patch = {"metadata": {"creationTimestamp": None, "generation": 9, "deletionTimestamp": "2020-01-01T00:00:00Z"}}
    assert await api.call("PATCH", f"{PODS}/web", patch, content_type=MERGE) == stored
    status, reason, message = await api.call_error(
        "PATCH", f"{PODS}/web", {"spec": {"nodeName": "n1"}}, content_type=MERGE
    )
    assert (status, reason) == (422, "Invalid")
    assert message == 'Pod "web" is invalid: spec.nodeName: Forbidden: only a binding may set it'


async def test_changed_spec_increases_the_generation() -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod())
    changed = await api.call("PATCH", f"{PODS}/web", {"spec": {"activeDeadlineSeconds": 5}}, content_type=MERGE)
    labelled = await api.call("PATCH", f"{PODS}/web", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert (changed["metadata"]["generation"], labelled["metadata"]["generation"]) == (2, 2)


@pytest.mark.parametrize(
    ("body", "status", "reason", "message"),
    [
        (
            {"metadata": {}},
            422,
            "Invalid",
            'Pod "" is invalid: [metadata.name: Required value: name or generateName is required, spec.containers',
        ),
        (
            pod("Web_1"),
            422,
            "Invalid",
            'Pod "Web_1" is invalid: metadata.name: Invalid value: "Web_1": a lowercase RFC 1123',
        ),
        (pod("a/b"), 422, "Invalid", 'Pod "a/b" is invalid: metadata.name: Invalid value: "a/b"'),
        (pod("there"), 409, "AlreadyExists", 'pods "there" already exists'),
        (
            pod() | {"metadata": {"name": "web", "namespace": "other"}},
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            pod() | {"metadata": {"name": "web", "resourceVersion": "1"}},
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ),
        (
            pod() | {"metadata": []},
            400,
            "BadRequest",
            'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal array into Go struct field Pod.',
        ),
        (
            node("web"),
            400,
            "BadRequest",
            "the kind in the data (Node) does not match the expected kind (Pod)",
        ),
        (
            pod() | {"apiVersion": "v2"},
            400,
            "BadRequest",
            "the apiVersion in the data (v2) does not match the expected apiVersion (v1)",
        ),
        (
            pod(containers="many"),
            400,
            "BadRequest",
            'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into',
        ),
        (
            pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "lots"}}}]),
            400,
            "BadRequest",
            'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression ',
        ),
        (
            pod(priorityClassName="nope"),
            403,
            "Forbidden",
            'pods "web" is forbidden: no PriorityClass with name nope was found',
        ),
    ],
)
async def test_invalid_update_is_rejected(body: Json, status: int, reason: str, message: str) -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod("there"))
    version = api.cluster.version
    refused = await api.call_error("POST", PODS, body)
    assert refused[:2] == (status, reason)
    assert refused[2].startswith(message)
    assert api.cluster.version == version


async def test_missing_namespace_is_an_error() -> None:
    refused = await LocalApi().call_error("POST", "/api/v1/namespaces/nowhere/pods", pod())
    assert refused == (404, "NotFound", 'namespaces "nowhere" not found')


async def test_update_needs_the_same_name() -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod())
    refused = await api.call_error("PUT", f"{PODS}/web", pod("other"))
    assert refused == (400, "BadRequest", "the name of the object (other) does not match the name on the URL (web)")
    assert (await api.call_error("PUT", f"{PODS}/other", pod("other")))[:2] == (404, "NotFound")


RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
LIMIT_RANGES = "/api/v1/namespaces/default/limitranges"


async def test_runtime_class_changes_new_pods() -> None:
    api = LocalApi()
    scheduling = {"nodeSelector": {"runtime": "boxed"}, "tolerations": [{"key": "runtime", "operator": "Exists"}]}
    runtime_class = {
        "metadata": {"name": "boxed"},
        "handler": "runsc",
        "overhead": {"podFixed": {"cpu": "500m"}},
        "scheduling": scheduling,
    }
    await api.call("POST", RUNTIME_CLASSES, runtime_class)
    spec = (await api.call("POST", PODS, pod(runtimeClassName="boxed")))["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "500m"}, {"runtime": "boxed"})
    assert {"key": "runtime", "operator": "Exists"} in spec["tolerations"]
    message = 'pods "other" is forbidden: pod rejected: RuntimeClass "nosuch" not found'
    assert await api.call_error("POST", PODS, pod("other", runtimeClassName="nosuch")) == (403, "Forbidden", message)


async def test_limit_range_changes_and_limits_new_pods() -> None:
    api = LocalApi()
    item = {"type": "Container", "defaultRequest": {"cpu": "1"}, "default": {"cpu": "2"}, "max": {"cpu": "2"}}
    await api.call("POST", LIMIT_RANGES, {"metadata": {"name": "limits"}, "spec": {"limits": [item]}})
    created = await api.call("POST", PODS, pod())
    (container,) = created["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert container["command"] == ["nginx"]
    reason = "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    assert created["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": reason}
    assert created["status"]["qosClass"] == "Burstable"
    large = pod("large", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "3"}}}])
    message = 'pods "large" is forbidden: maximum cpu usage per Container is 2, but limit is 3'
    assert await api.call_error("POST", PODS, large) == (403, "Forbidden", message)


async def test_pod_with_another_priority_than_its_class_is_rejected() -> None:
    api, path = LocalApi(), "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.call("POST", path, {"metadata": {"name": "high"}, "value": 10, "globalDefault": True})
    second = {"metadata": {"name": "second"}, "value": 1}
    _, _, message = await api.call_error("POST", path, second | {"globalDefault": True})
    assert message.endswith("PriorityClass high is already marked as default. Only one default can exist")
    await api.call("POST", path, second)
    _, _, message = await api.call_error("PATCH", f"{path}/second", {"globalDefault": True}, content_type=MERGE)
    assert message.endswith("PriorityClass high is already marked as default. Only one default can exist")
    _, reason, message = await api.call_error("POST", PODS, pod(priorityClassName="high", priority=5))
    assert (reason, "the integer value of priority (5) must not be provided" in message) == ("Forbidden", True)


RULES = "/apis/resource.k8s.io/v1/devicetaintrules"


async def test_rule_that_taints_devices_gets_its_time_and_keeps_its_status() -> None:
    api = LocalApi()
    taint = {"key": "example.com/broken", "effect": "None"}
    spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": taint}
    moment = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "NotStarted"}
    condition = {"type": "EvictionInProgress", "status": "False", **moment}
    sent = {"metadata": {"name": "r"}, "spec": spec, "status": {"conditions": [condition]}}
    created = await api.call("POST", RULES, sent)
    assert created.get("status", {}) == {} and created["metadata"]["generation"] == 1
    assert created["spec"]["taint"].pop("timeAdded").endswith("Z")
    assert created["spec"] == spec
    status = await api.call("PATCH", f"{RULES}/r/status", {"status": {"conditions": [condition]}}, content_type=MERGE)
    assert status["metadata"]["generation"] == 1
    changed = await api.call("PATCH", f"{RULES}/r", {"spec": {"taint": {"effect": "NoExecute"}}}, content_type=MERGE)
    assert changed["metadata"]["generation"] == 2
    assert changed["status"]["conditions"] == [condition]
