"""Clusters with quotas, for tests of this plugin and of those that run beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kframework import Plugin
from kframework.objects import ApiObject, ObjectMeta, Pod, RawQuantity
from kframework.testing import Scenario, ScenarioResult, create, make_pod
from kframework_capacity_scheduling.capacity_scheduling import CapacityScheduling
from kframework_capacity_scheduling.elastic_quota import ElasticQuota, ElasticQuotaSpec

#: The configuration that scheduler-plugins publishes.
PUBLISHED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: CapacityScheduling
    postFilter:
      enabled:
      - name: CapacityScheduling
      disabled:
      - name: "*"
"""


Amounts = Mapping[str, RawQuantity]


def configuration(*plugins: type[Plugin]) -> str:
    """Return the published configuration with further plugins."""
    names = "".join(f"      - name: {plugin.name}\n" for plugin in plugins)
    return PUBLISHED.replace("    multiPoint:\n      enabled:\n", f"    multiPoint:\n      enabled:\n{names}")


def quota(namespace: str, min: Amounts | int | None = None, max: Amounts | int | None = None) -> ElasticQuota:
    """Make a quota; a number is of cpu."""
    metadata = ObjectMeta(name="quota", namespace=namespace, uid=f"quota-{namespace}")
    return ElasticQuota(metadata=metadata, spec=ElasticQuotaSpec(min=_resources(min), max=_resources(max)))


def _resources(amounts: Amounts | int | None) -> dict[str, RawQuantity]:
    return {"cpu": amounts} if isinstance(amounts, int) else dict(amounts or {})


def pods(namespace: str, number: int, name: str = "pod", **more: object) -> list[Pod]:
    """Make pods, of one cpu each by default."""
    settings = {"cpu": 1, "memory": None, **more}
    return [make_pod(f"{name}-{n}", namespace=namespace, **settings) for n in range(number)]  # type: ignore[arg-type]  # as given


def scenario(
    objects: Iterable[ApiObject],
    *waves: tuple[float, Iterable[ApiObject]],
    plugin: type[CapacityScheduling] = CapacityScheduling,
    config: str = PUBLISHED,
) -> Scenario:
    """Set up the published configuration, with objects that are created in waves, each at its time."""
    prepared = Scenario(objects=objects, plugins=[plugin], config=config)
    for seconds, wave in waves:
        for obj in wave:
            prepared.at(seconds, create(obj))
    return prepared


def running(result: ScenarioResult, namespace: str) -> set[str]:
    """Name the pods of a namespace that are on nodes."""
    found = result.cluster.objects(Pod)
    return {pod.metadata.name for pod in found if pod.metadata.namespace == namespace and pod.spec.node_name}


def victims(result: ScenarioResult) -> list[str]:
    """Name the pods that were evicted, in order."""
    return list(dict.fromkeys(victim for decision in result.decisions for victim in decision.victims))


def used(result: ScenarioResult, namespace: str) -> dict[str, RawQuantity]:
    return dict(result.cluster.read(ElasticQuota, "quota", namespace).status.used)
