"""What `pluginConfig` may say: what scheduler-plugins publishes is read unchanged, and mistakes are named."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kframework_coscheduling import Coscheduling

from kframework import ConfigError
from kframework.testing import Scenario
from tests.support.gangs import group, members, slots

#: The ConfigMap that the Helm chart of scheduler-plugins installs, with Coscheduling alone and all its Args.
CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: scheduler-config
  namespace: scheduler-plugins
data:
  scheduler-config.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    leaderElection:
      leaderElect: false
      resourceNamespace: scheduler-plugins
      resourceName: default-scheduler
    profiles:
    - schedulerName: default-scheduler
      plugins:
        multiPoint:
          enabled:
          - name: Coscheduling
          disabled:
          - name: PrioritySort
      pluginConfig:
      - args:
          permitWaitingTimeSeconds: 10
          podGroupBackoffSeconds: 5
          podGroupRejectPercentage: 10
        name: Coscheduling
"""


def test_published_configuration_loads_from_a_config_map() -> None:
    groups, pods = [group("red", 2), group("blue", 3)], [*members("red", 2), *members("blue", 3)]
    world = Scenario(nodes=slots(4), pods=pods, objects=groups, plugins=[Coscheduling], config=CONFIG_MAP)
    result = world.run(until=30)
    assert {pod for pod in ("red-0", "red-1", "blue-0", "blue-1", "blue-2") if result.node_of(pod)} in (
        {"red-0", "red-1"},
        {"blue-0", "blue-1", "blue-2"},
    )


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"permitWaitingTimeSeconds": -1}, "permitWaitingTimeSeconds"),
        ({"podGroupBackoffSeconds": -1}, "podGroupBackoffSeconds"),
        ({"podGroupRejectPercentage": 101}, "podGroupRejectPercentage"),
        ({"permitWaitingTimeSeconds": "soon"}, "permitWaitingTimeSeconds"),
        ({"permitWaitingTime": 10}, "permitWaitingTime"),
    ],
)
def test_invalid_args_are_named(args: Mapping[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Scenario(plugins=[Coscheduling], args={"Coscheduling": args}).run()
