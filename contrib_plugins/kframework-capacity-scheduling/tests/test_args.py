"""What `pluginConfig` may say: the published configuration in a ConfigMap; mistakes are named."""

from __future__ import annotations

from textwrap import indent

import pytest
from kframework_capacity_scheduling import CapacityScheduling
from kframework_capacity_scheduling.testing import PUBLISHED, pods, quota, running, scenario

from kframework import ConfigError
from kframework.testing import Scenario, make_node

CONFIG_MAP = f"""
apiVersion: v1
kind: ConfigMap
metadata: {{name: scheduler-config, namespace: kube-system}}
data:
  scheduler-config.yaml: |
{indent(PUBLISHED.lstrip(), "    ")}
"""


def test_published_configuration_loads_from_a_config_map() -> None:
    objects = [make_node("node", cpu=8), quota("a", min=8, max=3)]
    assert len(running(scenario(objects, (0, pods("a", 5)), config=CONFIG_MAP).run(), "a")) == 3


@pytest.mark.parametrize("args", [{"kubeConfigPath": 3}, {"kubeconfig": "/etc/kubernetes"}])
def test_invalid_args_are_named(args: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(args))):
        Scenario(plugins=[CapacityScheduling], args={"CapacityScheduling": args}).run()
