"""Random worlds of groups whose pods share claims: devices are given once, do not leak, and are on the pods' nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from kframework import ClusterError, NodeTable
from kframework.in_memory.claim_controller import ClaimController
from kframework.in_memory.cluster import Fault
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Pod, PodGroup, ResourceClaim
from kframework.objects.resource_claims import ResourceClaimStatus
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices, results_of
from kframework.plugins.dynamic_resources.cycle import ClaimsInCycle
from kframework.plugins.dynamic_resources.plugin import DynamicResources
from tests.plugins.dynamic_resources.claiming import GPUS, gpus
from tests.plugins.dynamic_resources.groups import CLAIMS
from tests.properties.test_groups import World
from tests.support.devices import claim, template, with_claim
from tests.support.group_worlds import checked, failures
from tests.support.groups import claiming
from tests.support.scale import seeds

Ints = NDArray[np.int64]
NOT_ALLOCATED = ResourceClaimStatus()


class ClaimWorld(World):
    """A world in which most groups share a claim, and the writes of claims are refused by chance too."""

    config = CLAIMS

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.problems: list[str] = []
        self.simulation.cluster.subscribe([ResourceClaim], self.on_claim)
        self.simulation.cluster.subscribe([Pod], self.on_pod)

    def objects(self) -> list[ApiObject]:
        nodes = super().objects()
        devices = [gpus(f"n{number}", *"xy"[: self.random.randint(0, 2)]) for number in range(3)]
        return [*nodes, GPUS, template(), *devices]

    def fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        is_write = kind is ResourceClaim and method in ("patch", "patch_status")
        if is_write and self.simulation.seconds < self.trouble and self.random.random() < 0.2:
            status = self.random.choice((403, 409))
            return Fault(error=ClusterError("refused", status=status), delay=self.random.choice((0.0, 0.5)))
        fault = super().fault(method, kind, namespace, name)
        group = name.rpartition("-")[0]
        if fault is not None and group in self.minimum:
            self.minimum[group] = 1  # its other pods may be deleted before it is tried again
        return fault

    def with_claims(self, group: PodGroup, pods: list[Pod]) -> tuple[PodGroup, list[Pod]]:
        """Let all pods share a claim, which may be one of the group, and some have one of their own too."""
        drawn, name = self.random.random(), f"shared-{group.metadata.name}"
        if drawn < 0.3:
            return group, pods
        if drawn < 0.6:
            self.simulation.create(claim(name))
        shared = {"claim": name} if drawn < 0.6 else {"template": "one-gpu"}
        pods = [with_claim(pod, **shared) for pod in pods]
        if self.random.random() < 0.8:
            group = claiming(group, *pods[0].spec.resource_claims)
        if self.random.random() < 0.2:
            pods = [with_claim(pod, template="one-gpu", called="own") for pod in pods]
        return group, pods

    # -- what holds ------------------------------------------------------------------------------------------------

    def on_claim(self, change: Change) -> None:
        """Check that no device is allocated to two claims."""
        holders = dict[tuple[str, str], str]()
        for each in self.simulation.cluster.objects(ResourceClaim):
            for result in results_of(each):
                other = holders.setdefault((result.pool, result.device), each.metadata.name)
                if other != each.metadata.name:
                    self.problems.append(f"{result.pool}/{result.device} belongs to {other} and {each.metadata.name}")

    def on_pod(self, change: Change) -> None:
        """Check that a pod is bound to the node of its devices, and may use them."""
        old, pod = change.old, change.new
        if not isinstance(pod, Pod) or not pod.spec.node_name or (isinstance(old, Pod) and old.spec.node_name):
            return
        names = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
        for reference in pod.spec.resource_claims:
            name = reference.resource_claim_name or names[reference.name]
            used = self.simulation.cluster.find(ResourceClaim, name or "", "default")
            pools = [] if used is None else [result.pool for result in results_of(used)]
            if used is None or pools != [pod.spec.node_name]:
                self.problems.append(
                    f"{pod.metadata.name} is bound to {pod.spec.node_name}, its devices are on {pools}"
                )
            elif {each.name for each in used.status.reserved_for}.isdisjoint((pod.metadata.name, self.group_of(pod))):
                self.problems.append(f"{used.metadata.name} is not reserved for {pod.metadata.name}")

    def group_of(self, pod: Pod) -> str:
        group = pod.spec.scheduling_group
        return "" if group is None else group.pod_group_name or ""

    def check_end(self) -> None:
        super().check_end()
        assert not self.problems
        plugin = self.simulation.scheduler.engine.profiles["default-scheduler"].plugins["DynamicResources"]
        assert isinstance(plugin, DynamicResources)
        claims = self.simulation.objects(ResourceClaim)
        devices = {(result.pool, result.device) for each in claims for result in results_of(each)}
        assert {(each.pool, each.device) for each in plugin.devices.allocated._counts.exclusive} == devices
        assert not plugin.devices.allocated._pending
        users = {each.metadata.name for kind in (Pod, PodGroup) for each in self.simulation.objects(kind)}
        for each in claims:
            consumers = {user.name for user in each.status.reserved_for}
            assert consumers <= users, f"{each.metadata.name} is reserved for {consumers - users}, which are gone"


@pytest.mark.parametrize("seed", seeds())
def test_shared_devices_are_given_once_and_do_not_leak(seed: int) -> None:
    checked(ClaimWorld(seed))


def test_worlds_have_pods_with_shared_devices() -> None:
    world = checked(ClaimWorld(3))
    reserved = [user.resource for each in world.simulation.objects(ResourceClaim) for user in each.status.reserved_for]
    assert {*reserved} == {"pods", "podgroups"}


# -- planted faults ------------------------------------------------------------------------------------------------


def keep_devices_that_are_given_back(patch: pytest.MonkeyPatch) -> None:
    def release(self: AllocatedDevices, claim: ResourceClaim) -> None: ...

    patch.setattr(AllocatedDevices, "release", release)


def go_anywhere(patch: pytest.MonkeyPatch) -> None:
    """Let pods that share a device run on nodes that do not reach it."""
    usable = ClaimsInCycle._is_usable_on

    def is_usable_on(self: ClaimsInCycle, claim: ResourceClaim, nodes: NodeTable, rows: Ints) -> NDArray[np.bool_]:
        return usable(self, claim if claim in self._stored else replace(claim, status=NOT_ALLOCATED), nodes, rows)

    patch.setattr(ClaimsInCycle, "_is_usable_on", is_usable_on)


def keep_claims_of_deleted_groups(patch: pytest.MonkeyPatch) -> None:
    def is_group(self: ClaimController, namespace: str, name: str, uid: str) -> bool:
        return True

    patch.setattr(ClaimController, "_is_group", is_group)


@pytest.mark.slow
@pytest.mark.parametrize("plant", [keep_devices_that_are_given_back, go_anywhere, keep_claims_of_deleted_groups])
def test_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(failures(ClaimWorld))
