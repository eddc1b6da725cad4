"""The selection of controllers: all run, except those that are switched off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kframework.clock import Clock
from kframework.errors import ConfigError, nearest_name
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import MemoryController
from kframework.in_memory.pod_garbage_collector import PodGarbageCollector
from kframework.in_memory.workloads.cron_job import CronJobController
from kframework.in_memory.workloads.daemon_set import DaemonSetController
from kframework.in_memory.workloads.deployment import DeploymentController
from kframework.in_memory.workloads.job import JobController, OrphanedJobPodController, TtlAfterFinishedController
from kframework.in_memory.workloads.replica_set import ReplicaSetController, ReplicationControllerController
from kframework.in_memory.workloads.stateful_set import StatefulSetController

ControllerFactory = Callable[[MemoryCluster, Clock], MemoryController]

#: By the names that kube-controller-manager has for them; without `-controller` it knows them too. Those without a
#: factory are the fake API's choice: a simulation always has claims and groups, and no scheduler reads what the others
#: write.
CONTROLLERS: Mapping[str, tuple[ControllerFactory, ...]] = {
    "resourceclaim-controller": (),
    "podgroup-protection-controller": (),
    "deployment-controller": (DeploymentController,),
    "replicaset-controller": (ReplicaSetController,),
    "replicationcontroller-controller": (ReplicationControllerController,),
    "endpoints-controller": (),
    "endpointslice-controller": (),
    "daemonset-controller": (DaemonSetController,),
    "statefulset-controller": (StatefulSetController,),
    "job-controller": (JobController, OrphanedJobPodController),
    "cronjob-controller": (CronJobController,),
    "ttl-after-finished-controller": (TtlAfterFinishedController,),
    "pod-garbage-collector-controller": (PodGarbageCollector,),
    "serviceaccount-controller": (),
    "root-ca-certificate-publisher-controller": (),
}


def create_controllers(
    names: Sequence[str],
    cluster: MemoryCluster,
    clock: Clock,
    controllers: Mapping[str, tuple[ControllerFactory, ...]] = CONTROLLERS,
) -> list[MemoryController]:
    """Create the named controllers; `*` names all, and a minus before a name switches it off.

    The first mention of a name counts. Raises ConfigError for an unknown name.
    """
    enabled: dict[str, bool] = {}
    for each in names:
        name = each.removeprefix("-")
        name = f"{name}-controller" if f"{name}-controller" in controllers else name
        if name != "*" and name not in controllers:
            known = [known_name.removesuffix("-controller") for known_name in controllers]
            nearest = nearest_name(name, known)
            remedy = f'did you mean "{nearest}"?' if nearest else f"known are {', '.join(known)}"
            raise ConfigError(f'controllers: unknown controller "{name}"; {remedy}')
        enabled.setdefault(name, not each.startswith("-"))
    chosen = (controllers[name] for name in controllers if enabled.get(name, enabled.get("*", False)))
    return [create(cluster, clock) for factories in chosen for create in factories]
