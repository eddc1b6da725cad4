"""What scheduler-plugins publishes for the plugins of contrib_plugins passes `config check`, in every form.

Its manifests, READMEs and installation guide enable a plugin in a file or a ConfigMap; its chart composes several.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
import yaml

from tests.cli.conftest import Command

HEADER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
"""
#: What follows the name of the scheduler in a profile.
PROFILES = {
    "Coscheduling in its manifest": """
  plugins:
    multiPoint: {enabled: [{name: Coscheduling}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
  pluginConfig:
  - {name: Coscheduling, args: {permitWaitingTimeSeconds: 10}}
""",
    "Coscheduling with all args": """
  pluginConfig:
  - name: Coscheduling
    args: {permitWaitingTimeSeconds: 60, podGroupBackoffSeconds: 10, podGroupRejectPercentage: 10}
  plugins:
    multiPoint: {enabled: [{name: Coscheduling}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
""",
    "Coscheduling in the installation guide": """
  plugins:
    multiPoint: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}
""",
    "CapacityScheduling": """
  plugins:
    multiPoint: {enabled: [{name: CapacityScheduling}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: "*"}]}
""",
    "CapacityScheduling up to release 0.21": """
  plugins:
    preFilter: {enabled: [{name: CapacityScheduling}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: "*"}]}
    reserve: {enabled: [{name: CapacityScheduling}]}
  pluginConfig:
  - {name: CapacityScheduling, args: {kubeConfigPath: REPLACE_ME_WITH_KUBE_CONFIG_PATH}}
""",
    "TargetLoadPacking with Prometheus": """
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: NodeResourcesLeastAllocated}]
      enabled: [{name: TargetLoadPacking}]
  pluginConfig:
  - name: TargetLoadPacking
    args:
      defaultRequestsMultiplier: "1"
      targetUtilization: 40
      metricProvider: {type: Prometheus, address: "http://replace_me_with_prometheus_server:9090"}
""",
    "TargetLoadPacking with load-watcher": """
  plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args:
      defaultRequests: {cpu: "2000m"}
      defaultRequestsMultiplier: "2"
      targetUtilization: 70
      watcherAddress: http://127.0.0.1:2020
""",
    "LoadVariationRiskBalancing": """
  plugins: {score: {enabled: [{name: LoadVariationRiskBalancing}]}}
  pluginConfig:
  - name: LoadVariationRiskBalancing
    args:
      metricProvider:
        {type: Prometheus, address: http://prometheus-k8s.monitoring.svc.cluster.local:9090, insecureSkipVerify: true}
      safeVarianceMargin: 1
      safeVarianceSensitivity: 2
""",
    "LowRiskOverCommitment": """
  plugins: {score: {enabled: [{name: LowRiskOverCommitment}]}}
  pluginConfig:
  - name: LowRiskOverCommitment
    args:
      smoothingWindowSize: 5
      riskLimitWeights: {cpu: 0.5, memory: 0.5}
      metricProvider: {type: Prometheus, address: http://prometheus-k8s.monitoring.svc.cluster.local:9090}
""",
    "NodeResourceTopologyMatch without Reserve": """
  plugins:
    multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}
    reserve: {disabled: [{name: NodeResourceTopologyMatch}]}
  pluginConfig:
  - {name: NodeResourceTopologyMatch, args: {scoringStrategy: {type: LeastAllocated}}}
""",
    "NodeResourceTopologyMatch with its cache": """
  plugins: {multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args: {scoringStrategy: {type: LeastAllocated}, cacheResyncPeriodSeconds: 5}
""",
    "the chart, with the plugins that are here": """
  plugins:
    multiPoint:
      enabled: [{name: Coscheduling}, {name: CapacityScheduling}, {name: NodeResourceTopologyMatch}]
      disabled: [{name: PrioritySort}]
  pluginConfig:
  - args: {permitWaitingTimeSeconds: 10}
    name: Coscheduling
  - args: {scoringStrategy: {type: MostAllocated}}
    name: NodeResourceTopologyMatch
""",
    "the chart, with nothing disabled": """
  plugins:
    multiPoint:
      enabled: [{name: TargetLoadPacking}, {name: LoadVariationRiskBalancing}, {name: LowRiskOverCommitment}]
      disabled:
""",
}


def configuration(name: str) -> str:
    return f"{HEADER}profiles:\n- schedulerName: scheduler-plugins{PROFILES[name]}"


def as_config_map(text: str) -> str:
    metadata = "{name: scheduler-config, namespace: scheduler-plugins}"
    data = indent(text.lstrip(), "    ")
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\ndata:\n  scheduler-config.yaml: |\n{data}"


@pytest.mark.parametrize("name", PROFILES)
def test_published_configuration_is_ok_in_a_file_and_in_a_config_map(run: Command, tmp_path: Path, name: str) -> None:
    file, config_map = tmp_path / "config.yaml", tmp_path / "configmap.yaml"
    file.write_text(configuration(name))
    config_map.write_text(as_config_map(configuration(name)))
    result = run("config", "check", file, config_map)
    assert (result.code, result.out) == (0, f"{file}: ok\n{config_map}: ok\n"), result.err


def test_published_args_reach_the_plugins(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "configmap.yaml"
    file.write_text(as_config_map(configuration("the chart, with the plugins that are here")))
    (profile,) = next(yaml.safe_load_all(run("config", "show", file).out))["profiles"]
    args = {each["name"]: each["args"] for each in profile["pluginConfig"]}
    assert args["Coscheduling"]["permitWaitingTimeSeconds"] == 10
    assert args["NodeResourceTopologyMatch"]["scoringStrategy"]["type"] == "MostAllocated"


@pytest.mark.parametrize("version", ["v1beta1", "v1beta3"])
def test_manifest_of_a_removed_version_names_the_one_to_write(run: Command, tmp_path: Path, version: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(configuration("TargetLoadPacking with Prometheus").replace("k8s.io/v1", f"k8s.io/{version}"))
    result = run("config", "check", file)
    assert result.code == 1
    assert result.errors[-1].endswith("write apiVersion: kubescheduler.config.k8s.io/v1")
