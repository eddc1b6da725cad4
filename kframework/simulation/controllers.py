"""The controllers of a simulated cluster: they start pods, bind volumes, allocate claims and run workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from kframework.clock import Clock
from kframework.in_memory.claim_controller import ClaimController
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.pod_group_protection import PodGroupProtectionController
from kframework.in_memory.volume_controller import VolumeController
from kframework.objects import (
    ApiObject,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

#: The kinds with a template of the pods to create.
WorkloadKind = DaemonSet | Deployment | Job | ReplicaSet | ReplicationController | StatefulSet
WORKLOADS: tuple[type[WorkloadKind], ...] = (DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet)
#: Controllers that run only if they are named: no scheduler reads what they create, and a simulation reports in the
#: end on pods that have ended too.
_OFF_BY_DEFAULT = (
    "-endpoints",
    "-endpointslice",
    "-serviceaccount",
    "-root-ca-certificate-publisher",
    "-pod-garbage-collector",
)


class Controller(Protocol):
    """A controller that runs with the scheduler: the kubelets, a binder of volumes, a controller that creates pods."""

    #: Called whenever the controller has nothing left to do.
    on_idle: Callable[[], None]

    @property
    def kinds(self) -> Sequence[type[ApiObject]]:
        """The kinds that it follows."""

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do until something changes."""

    async def run(self) -> None:
        """Follow the cluster until cancelled."""


#: Creates a controller for a cluster.
ControllerFactory = Callable[[MemoryCluster, Clock], Controller]


def volume_controller(cluster: MemoryCluster, clock: Clock) -> VolumeController:
    """Create the controller that binds and provisions volumes."""
    return VolumeController(cluster)


#: The controllers of every cluster: kubelets, volumes and claims to devices.
STANDARD_CONTROLLERS: tuple[ControllerFactory, ...] = (Kubelet, volume_controller, ClaimController)


def create_group_controllers(cluster: MemoryCluster, clock: Clock) -> Iterable[Controller]:
    """Create the controllers of PodGroups if their pods are scheduled together."""
    return (PodGroupProtectionController(cluster, clock),) if cluster.feature_gates.has_pod_groups else ()


def create_workload_controllers(
    names: Sequence[str], objects: Iterable[ApiObject], cluster: MemoryCluster, clock: Clock
) -> Iterable[Controller]:
    """Create the named controllers of workloads if one of these objects has a pod template."""
    has_workloads = any(
        bool(each.spec.template.spec) if isinstance(each, WORKLOADS) else isinstance(each, CronJob) for each in objects
    )
    if not has_workloads and set(names) <= {"*"}:
        return ()
    from kframework.in_memory.garbage_collector import GarbageCollector  # most simulations need none of it
    from kframework.in_memory.workloads.selection import create_controllers

    chosen = create_controllers((*names, *_OFF_BY_DEFAULT), cluster, clock)
    return (*chosen, GarbageCollector(cluster)) if names and has_workloads else ()
