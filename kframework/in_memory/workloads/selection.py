"""The selection of controllers: all run, except those that are switched off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kframework.clock import Clock
from kframework.errors import ConfigError
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop
from kframework.in_memory.pod_garbage_collector import PodGarbageCollector
from kframework.in_memory.workloads.cron_job import CronJobController
from kframework.in_memory.workloads.daemon_set import DaemonSetController
from kframework.in_memory.workloads.deployment import DeploymentController
from kframework.in_memory.workloads.job import JobController, OrphanedJobPodController, TtlAfterFinishedController
from kframework.in_memory.workloads.replica_set import ReplicaSetController, ReplicationControllerController
from kframework.in_memory.workloads.stateful_set import StatefulSetController

#: By the names that kube-controller-manager has for them; without `-controller` it knows them too. Those without a
#: class here run in the fake API only: no scheduler looks at what they write.
CONTROLLERS: Mapping[str, tuple[type[ControlLoop], ...]] = {
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
    controllers: Mapping[str, tuple[type[ControlLoop], ...]] = CONTROLLERS,
) -> Iterator[ControlLoop]:
    """Create the named controllers; `*` names all, and a minus before a name switches it off.

    The first mention of a name counts. Raises ConfigError for an unknown name.
    """
    enabled: dict[str, bool] = {}
    for each in names:
        name = each.removeprefix("-")
        name = f"{name}-controller" if f"{name}-controller" in controllers else name
        if name != "*" and name not in controllers:
            raise ConfigError(f'controllers: unknown controller "{name}"; known are {", ".join(controllers)}')
        enabled.setdefault(name, not each.startswith("-"))
    for name, classes in controllers.items():
        if enabled.get(name, enabled.get("*", False)):
            yield from (controller(cluster, clock) for controller in classes)
