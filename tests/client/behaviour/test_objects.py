"""What every cluster does with objects of any kind: create, get, list, update, patch and delete them."""

from __future__ import annotations

import asyncio
import re

import pytest
from msgspec.structs import replace

from kframework.client.cluster import Cluster
from kframework.errors import ClusterError
from kframework.objects import (
    ApiObject,
    Lease,
    LeaseSpec,
    Namespace,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaimStatus,
    Pod,
    PodStatus,
    PriorityClass,
    StorageClass,
)
from kframework.state.inbox import Upserted
from tests.client.behaviour.ways import Stage, lease, node, pod, refusal
from tests.support.declared_kinds import Gang, GangStatus, Team, gang
from tests.support.storage import claim

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def test_created_object_can_be_read(stage: Stage) -> None:
    created = await stage.client.create(pod())
    assert created.metadata.uid and created.metadata.resource_version and created.metadata.creation_timestamp
    assert await stage.client.get(Pod, "web", "default") == created
    assert await stage.client.list(Pod) == await stage.client.list(Pod, "default") == [created]
    assert await stage.client.list(Pod, "kube-system") == []


async def test_cluster_scoped_object_has_no_namespace(stage: Stage) -> None:
    created = await stage.client.create(StorageClass(metadata=ObjectMeta(name="fast"), provisioner="disks.example"))
    assert (created.metadata.namespace, created.volume_binding_mode) == ("", "Immediate")
    assert await stage.client.get(StorageClass, "fast") == created


async def test_no_namespace_means_the_default_one(stage: Stage) -> None:
    client = stage.client
    created = await client.create(pod(namespace=""))
    assert created.metadata.namespace == "default"
    assert await client.get(Pod, "web") == await client.update(created) == await client.patch(Pod, "web", {}) == created
    await client.delete(Pod, "web")
    assert await client.list(Pod) == []


async def test_list_is_complete_however_many_pages_it_has(stage: Stage) -> None:
    names = {f"pod-{number}" for number in range(7)}
    stage.store.load(pod(name) for name in names)
    stage.store.add(pod("other", namespace="team"))
    assert {each.metadata.name for each in await stage.client.list(Pod, "default")} == names
    assert {each.metadata.name for each in await stage.client.list(Pod)} == names | {"other"}


async def test_name_is_generated(stage: Stage) -> None:
    generating = replace(pod(), metadata=ObjectMeta(generate_name="web-", namespace="default"))
    created = [await stage.client.create(generating) for _ in range(3)]
    names = {each.metadata.name for each in created}
    assert len(names) == 3
    assert all(re.fullmatch(r"web-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


async def test_same_name_gets_another_uid_the_second_time(stage: Stage) -> None:
    first = await stage.client.create(pod())
    await stage.client.delete(Pod, "web", "default")
    second = await stage.client.create(pod())
    assert first.metadata.uid != second.metadata.uid


async def test_server_sets_its_own_fields_whatever_the_client_sends(stage: Stage) -> None:
    metadata = ObjectMeta(
        name="web",
        uid="forged",
        generation=7,
        creation_timestamp="2001-01-01T00:00:00Z",
        deletion_timestamp="2001-01-01T00:00:00Z",
        deletion_grace_period_seconds=1,
    )
    created = await stage.client.create(replace(pod(), metadata=metadata, status=PodStatus(phase="Running")))
    assert (created.status.phase, created.metadata.generation) == ("Pending", 1)
    assert created.metadata.deletion_timestamp is None and created.metadata.deletion_grace_period_seconds is None
    assert created.metadata.uid != "forged"
    assert created.metadata.creation_timestamp != "2001-01-01T00:00:00Z"


async def test_status_is_ignored_on_creation_except_for_nodes(stage: Stage) -> None:
    status = PersistentVolumeClaimStatus(phase="Bound", capacity={"storage": "1"})
    created = await stage.client.create(replace(claim("data"), status=status))
    assert created.status == PersistentVolumeClaimStatus(phase="Pending")
    assert (await stage.client.create(node())).status.capacity == {"cpu": "4"}


@pytest.mark.parametrize(
    ("subject", "status", "reason", "words"),
    [
        (pod("there"), 409, "AlreadyExists", 'pods "there" already exists'),
        (
            PriorityClass(metadata=ObjectMeta(name="high")),
            409,
            "AlreadyExists",
            'priorityclasses.scheduling.k8s.io "high" already exists',
        ),
        (pod(namespace="team"), 404, "NotFound", 'namespaces "team" not found'),
        (pod(priority_class_name="vip"), 403, "Forbidden", 'pods "web" is forbidden: no PriorityClass with name vip'),
        (pod(""), 422, "Invalid", 'Pod "" is invalid: metadata.name: Required value: name or generateName is required'),
        (pod("a_b"), 422, "Invalid", 'Pod "a_b" is invalid: metadata.name: Invalid value: "a_b"'),
        (lease("a_b"), 422, "Invalid", 'Lease.coordination.k8s.io "a_b" is invalid: metadata.name: Invalid value'),
        (
            Pod(metadata=ObjectMeta(name="web", resource_version="3")),
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ),
    ],
)
async def test_invalid_object_cannot_be_created(
    stage: Stage, subject: ApiObject, status: int, reason: str, words: str
) -> None:
    stage.store.load([pod("there"), PriorityClass(metadata=ObjectMeta(name="high"))])
    version = stage.store.version
    code, why, message = await refusal(stage.client.create(subject))
    assert (code, why) == (status, reason)
    assert words in message
    assert stage.store.version == version


async def test_missing_object_is_not_found(stage: Stage) -> None:
    stage.store.add(pod("elsewhere", namespace="team"))
    client = stage.client
    nothing = (404, "NotFound", 'pods "elsewhere" not found')
    assert await refusal(client.get(Pod, "elsewhere", "default")) == nothing
    assert await refusal(client.update(pod("elsewhere"))) == nothing
    assert await refusal(client.patch(Pod, "elsewhere", {}, "default")) == nothing
    assert await refusal(client.delete(Pod, "elsewhere", "default")) == nothing
    assert await refusal(client.get(StorageClass, "fast")) == (
        404,
        "NotFound",
        'storageclasses.storage.k8s.io "fast" not found',
    )


async def test_namespace_is_labelled_with_its_name(stage: Stage) -> None:
    there = {each.metadata.name for each in await stage.client.list(Namespace)}
    assert there == {"default", "kube-node-lease", "kube-public", "kube-system"}
    team = await stage.client.create(Namespace(metadata=ObjectMeta(name="team")))
    assert team.metadata.labels == {"kubernetes.io/metadata.name": "team"}
    assert (await stage.client.create(pod(namespace="team"))).metadata.namespace == "team"


async def test_contents_are_deleted_with_their_namespace(stage: Stage) -> None:
    stage.store.load([pod(namespace="team"), pod("running", namespace="team", node_name="n1"), pod()])
    async with stage.watching(Pod) as watched:
        await stage.client.delete(Namespace, "team")
        await stage.client.create(pod("marker"))
        words = await watched.until("+marker")
    assert sorted(words[words.index("synced") :]) == ["+marker", "-running", "-web", "synced"]
    assert {each.metadata.namespace for each in await stage.client.list(Pod)} == {"default"}
    assert await refusal(stage.client.get(Namespace, "team")) == (404, "NotFound", 'namespaces "team" not found')


async def test_update_replaces_the_object(stage: Stage) -> None:
    stage.store.add(node(zone="a"))
    first = await stage.client.get(Node, "n1")
    second = await stage.client.update(replace(first, spec=NodeSpec(unschedulable=True)))
    assert second.spec == NodeSpec(unschedulable=True)
    assert (second.metadata.uid, second.metadata.labels) == (first.metadata.uid, {"zone": "a"})
    assert int(second.metadata.resource_version) > int(first.metadata.resource_version)
    assert await stage.client.get(Node, "n1") == second


async def test_update_needs_the_last_version_if_it_names_one(stage: Stage) -> None:
    stage.store.add(node())
    first = await stage.client.get(Node, "n1")
    await stage.client.update(replace(first, spec=NodeSpec(unschedulable=True)))
    refused = await refusal(stage.client.update(first))
    assert refused == (409, "Conflict", f'Operation cannot be fulfilled on nodes "n1": {MODIFIED}')
    without_version = replace(first, metadata=replace(first.metadata, resource_version=""))
    assert (await stage.client.update(without_version)).spec == NodeSpec()


async def test_unchanged_object_is_not_written(stage: Stage) -> None:
    stage.store.add(node())
    found, version = await stage.client.get(Node, "n1"), stage.store.version
    assert await stage.client.update(found) == found
    assert await stage.client.patch(Node, "n1", {"metadata": {"labels": {"absent": None}}}) == found
    assert stage.store.version == version


async def test_neither_update_nor_patch_touches_the_status(stage: Stage) -> None:
    stage.store.add(node())
    found = await stage.client.get(Node, "n1")
    other = NodeStatus(capacity={"cpu": "64"})
    updated = await stage.client.update(replace(found, status=other, spec=NodeSpec(unschedulable=True)))
    assert (updated.status, updated.spec.unschedulable) == (found.status, True)
    patched = await stage.client.patch(Node, "n1", {"status": {"capacity": {"cpu": "64"}}, "spec": None})
    assert (patched.status, patched.spec.unschedulable) == (found.status, False)


async def test_update_cannot_change_the_servers_fields(stage: Stage) -> None:
    created = await stage.client.create(pod())
    forged = replace(
        created.metadata, labels={"a": "b"}, creation_timestamp="2001-01-01T00:00:00Z", deletion_timestamp=None
    )
    updated = await stage.client.update(replace(created, metadata=forged))
    assert updated.metadata.labels == {"a": "b"}
    assert updated.metadata.creation_timestamp == created.metadata.creation_timestamp


@pytest.mark.parametrize(
    ("patch", "labels"),
    [
        ({"metadata": {"labels": {"b": "3"}}}, {"a": "1", "b": "3"}),
        ({"metadata": {"labels": {"a": None, "c": "4"}}}, {"b": "2", "c": "4"}),
        ({"metadata": {"labels": None}}, {}),
        ({}, {"a": "1", "b": "2"}),
    ],
)
async def test_patches_are_merged(stage: Stage, patch: dict[str, object], labels: dict[str, str]) -> None:
    stage.store.add(node(a="1", b="2"))
    patched = await stage.client.patch(Node, "n1", patch)
    assert patched.metadata.labels == labels
    assert patched.status.allocatable == {"cpu": "4"}
    assert await stage.client.get(Node, "n1") == patched


async def test_list_is_patched_as_a_whole(stage: Stage) -> None:
    stage.store.add(node())
    for taints in (
        [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}],
        [{"key": "c", "effect": "NoSchedule"}],
    ):
        patched = await stage.client.patch(Node, "n1", {"spec": {"taints": taints}})
        assert [taint.key for taint in patched.spec.taints] == [taint["key"] for taint in taints]


async def test_patch_may_name_a_version(stage: Stage) -> None:
    stage.store.add(node())
    found = await stage.client.get(Node, "n1")
    patch = {"metadata": {"resourceVersion": found.metadata.resource_version, "labels": {"a": "b"}}}
    assert (await stage.client.patch(Node, "n1", patch)).metadata.labels == {"a": "b"}
    refused = await refusal(stage.client.patch(Node, "n1", patch))
    assert refused == (409, "Conflict", f'Operation cannot be fulfilled on nodes "n1": {MODIFIED}')


async def test_immutable_fields_cannot_be_patched(stage: Stage) -> None:
    stage.store.load([pod(node_name="n1"), node()])
    status, reason, message = await refusal(stage.client.patch(Pod, "web", {"spec": {"nodeName": "n2"}}, "default"))
    assert (status, reason) == (422, "Invalid")
    assert message.startswith('Pod "web" is invalid: spec')
    status, reason, message = await refusal(stage.client.patch(Node, "n1", {"spec": {"unschedulable": "perhaps"}}))
    # An API server that decodes the field says that the patch is invalid, a client that does not reads no object of it.
    assert (status, reason) in ((422, "Invalid"), (400, "BadRequest"))
    assert "spec.unschedulable" in message
    assert (await refusal(stage.client.patch(Node, "n1", {"metadata": {"name": "n2"}})))[0] == 400


async def test_update_may_name_a_uid(stage: Stage) -> None:
    stage.store.add(pod())
    other = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="other", labels={"a": "b"}))
    status, reason, message = await refusal(stage.client.update(other))
    assert (status, reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: other, UID in object meta: " in message
    assert stage.store.read(Pod, "web", "default").metadata.labels == {}


async def test_patch_that_names_another_uid_is_invalid(stage: Stage) -> None:
    stage.store.add(pod())
    patch = {"metadata": {"uid": "other", "labels": {"a": "b"}}}
    status, reason, message = await refusal(stage.client.patch(Pod, "web", patch, "default"))
    assert (status, reason) == (422, "Invalid")
    assert 'Pod "web" is invalid: metadata.uid: Invalid value: "other": field is immutable' in message
    assert stage.store.read(Pod, "web", "default").metadata.labels == {}


async def test_status_is_patched_apart_from_the_rest(stage: Stage) -> None:
    created = await stage.client.create(replace(gang(color="red"), status=GangStatus(phase="Running")))
    assert created.status == GangStatus()
    client = stage.client
    first = await client.patch_status(Gang, "crew", {"phase": "Running", "members": ["a", "b"]}, "default")
    assert first.status == GangStatus(phase="Running", members=("a", "b"))
    second = await client.patch_status(Gang, "crew", {"phase": None, "podsRunning": 2, "members": ["c"]}, "default")
    assert second.status == GangStatus(pods_running=2, members=("c",))
    assert (second.spec, second.metadata.labels, second.metadata.uid) == (
        created.spec,
        {"color": "red"},
        created.metadata.uid,
    )
    assert await client.get(Gang, "crew") == second
    patched = await client.patch(Gang, "crew", {"spec": {"size": 5}, "status": {"podsRunning": 9}})
    assert (patched.spec.size, patched.status) == (5, second.status)
    updated = await client.update(replace(patched, status=GangStatus()))
    assert updated == patched


async def test_status_of_a_built_in_kind_is_patched_too(stage: Stage) -> None:
    stage.store.add(node())
    patched = await stage.client.patch_status(Node, "n1", {"capacity": {"memory": "1Gi"}, "allocatable": None})
    assert patched.status == NodeStatus(capacity={"cpu": "4", "memory": "1Gi"})


async def test_unchanged_status_is_not_written(stage: Stage) -> None:
    stage.store.add(replace(gang(), status=GangStatus(phase="Running")))
    version = stage.store.version
    patched = await stage.client.patch_status(Gang, "crew", {"phase": "Running", "members": None}, "default")
    assert patched.status == GangStatus(phase="Running")
    assert stage.store.version == version


async def test_status_is_seen_by_those_who_watch(stage: Stage) -> None:
    stage.store.add(gang())
    async with stage.watching(Gang) as watched:
        patched = await stage.client.patch_status(Gang, "crew", {"phase": "Running"}, "default")
        stage.store.add(gang("marker"))
        assert await watched.until("+marker") == ["+crew", "synced", "+crew", "+marker"]
    assert watched.messages[2] == Upserted(patched)


async def test_status_patch_checks_uid_and_version(stage: Stage) -> None:
    uid = stage.store.add(gang()).metadata.uid
    version, client = stage.store.version, stage.client
    status, reason, message = await refusal(
        client.patch_status(Gang, "crew", {"phase": "Running"}, "default", uid="other")
    )
    assert (status, reason) == (409, "Conflict")
    assert message.startswith('Operation cannot be fulfilled on gangs.example.com "crew": ')
    assert await refusal(client.patch_status(Gang, "nobody", {}, "default")) == (
        404,
        "NotFound",
        'gangs.example.com "nobody" not found',
    )
    assert (await refusal(client.patch_status(Team, "red", {}, "default")))[:2] == (404, "NotFound")
    status, reason, message = await refusal(client.patch_status(Gang, "crew", {"podsRunning": "many"}, "default"))
    assert (status, reason) == (400, "BadRequest")
    assert "status.podsRunning" in message
    assert stage.store.version == version
    assert (await client.patch_status(Gang, "crew", {"phase": "Running"}, uid=uid)).status.phase == "Running"


async def test_deleted_object_is_not_found(stage: Stage) -> None:
    stage.store.add(PersistentVolume(metadata=ObjectMeta(name="disk")))
    await stage.client.delete(PersistentVolume, "disk")
    assert await stage.client.list(PersistentVolume) == []
    gone = (404, "NotFound", 'persistentvolumes "disk" not found')
    assert await refusal(stage.client.delete(PersistentVolume, "disk")) == gone


async def test_deletion_may_name_a_uid(stage: Stage) -> None:
    uid = stage.store.add(pod()).metadata.uid
    status, reason, message = await refusal(stage.client.delete(Pod, "web", "default", uid="other"))
    assert (status, reason) == (409, "Conflict")
    assert f"the UID in the precondition (other) does not match the UID in record ({uid})" in message
    await stage.client.delete(Pod, "web", "default", uid=uid)
    assert stage.store.objects(Pod) == []


async def test_lease_keeps_every_digit_of_its_times(stage: Stage) -> None:
    spec = LeaseSpec(
        holder_identity="a",
        lease_duration_seconds=15,
        acquire_time="2026-01-01T00:00:00.123456Z",
        renew_time="2026-01-01T00:00:01.000007Z",
        lease_transitions=3,
    )
    created = await stage.client.create(replace(lease(), spec=spec))
    assert created.spec == spec
    assert (await stage.client.get(Lease, "boss", "kube-system")).spec == spec
    given_up = await stage.client.update(replace(created, spec=replace(spec, holder_identity="")))
    assert given_up.spec.holder_identity == ""


async def test_lease_cannot_be_updated_without_its_version(stage: Stage) -> None:
    created = await stage.client.create(lease())
    blind = replace(created, metadata=replace(created.metadata, resource_version=""), spec=lease(holder="b").spec)
    status, reason, message = await refusal(stage.client.update(blind))
    assert (status, reason) == (422, "Invalid")
    assert "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update" in message
    assert (await stage.client.get(Lease, "boss", "kube-system")).spec.holder_identity == "a"


async def outcomes(client: Cluster, candidates: list[Lease], *, update: bool) -> list[str]:
    """Let candidates write a lease side by side; return who won and why the others did not."""

    async def write(candidate: Lease) -> str:
        try:
            written = await (client.update(candidate) if update else client.create(candidate))
        except ClusterError as error:
            return error.reason
        return str(written.spec.holder_identity)

    return list(await asyncio.gather(*map(write, candidates)))


async def test_one_of_many_clients_gets_the_lease(stage: Stage) -> None:
    names = [f"candidate-{number}" for number in range(8)]
    ends = await outcomes(stage.client, [lease(holder=name) for name in names], update=False)
    (winner,) = set(ends) & set(names)
    assert ends.count("AlreadyExists") == 7
    found = await stage.client.get(Lease, "boss", "kube-system")
    assert found.spec.holder_identity == winner
    others = [replace(found, spec=lease(holder=name).spec) for name in names if name != winner]
    ends = await outcomes(stage.client, others, update=True)
    (winner,) = set(ends) & set(names)
    assert ends.count("Conflict") == 6
    assert (await stage.client.get(Lease, "boss", "kube-system")).spec.holder_identity == winner
