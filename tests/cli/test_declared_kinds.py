"""A kind that a plugin declares, from the module that declares it to what `kframework simulate` prints."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import pytest

from kframework.simulation.inputs import KINDS_GROUP
from tests.cli.conftest import Command, Install
from tests.cli.processes import fake_api, server_of

PLUGIN = """
from kframework import ActionType, ClusterEvent, EventResource, Plugin, Watch, hookimpl, unresolvable
from kframework.objects import ApiObject, ApiStruct, kind


class BudgetSpec(ApiStruct):
    max_pods: int = 0


@kind("budgets.example.com/v1alpha1", "budgets")
class Budget(ApiObject):
    spec: BudgetSpec = BudgetSpec()


class Budgeted(Plugin):
    name = "Budgeted"
    watches = (Watch(Budget),)

    @hookimpl
    def pre_filter(self, state, pod, nodes):
        budget = self.handle.objects(Budget).get("all", pod.namespace)
        here = sum(other.namespace == pod.namespace for other in self.handle.pods.values())
        if budget is None or here < budget.spec.max_pods:
            return None
        return unresolvable(f"the budget is {budget.spec.max_pods} pods")

    @hookimpl
    def events_to_register(self):
        changed = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
        return [
            ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE),
            ClusterEvent("budgets.v1alpha1.budgets.example.com", changed),
        ]
"""

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: budgets.example.com/v1alpha1
kind: Budget
metadata: {name: all}
spec: {maxPods: 1, somethingElse: {that: nobody reads}}
---
apiVersion: v1
kind: Pod
metadata: {name: short, annotations: {kframework.dev/run-seconds: "60"}}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: next}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: last}
spec: {containers: [{name: c, image: i}]}
"""

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [%s]}}
"""


def config(tmp_path: Path, *plugins: str) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG % ", ".join(f"{{name: {plugin}}}" for plugin in plugins))
    return file


def test_declared_kind_is_read_watched_and_wakes_pods(
    run: Command, install: Install, cluster: Path, tmp_path: Path
) -> None:
    install("budgeted", {"Budgeted": "Budgeted"}, PLUGIN)
    result = run("simulate", "-f", cluster, "--config", config(tmp_path, "Budgeted"), "-o", "json")
    pods = {each["pod"]: (each["node"], each["message"].split(". ")[0]) for each in json.loads(result.out)["items"]}
    assert pods == {
        "default/short": ("a", ""),
        "default/next": ("a", ""),
        "default/last": (None, "0/1 nodes are available: the budget is 1 pods"),
    }
    assert "ignored" not in result.err


def test_its_unknown_fields_are_warned_of_and_refused_by_strict(
    run: Command, install: Install, cluster: Path, tmp_path: Path
) -> None:
    install("strict_budgets", {"Budgeted": "Budgeted"}, PLUGIN.replace("budgets.example.com", "s.example.com"))
    cluster.write_text(CLUSTER.replace("budgets.example.com", "s.example.com").replace("maxPods:", "maxPodz:"))
    line = f'{cluster}:10: Budget default/all: unknown field "spec.maxPodz"; did you mean "maxPods"?'
    warned = run("simulate", "-f", cluster, "--config", config(tmp_path, "Budgeted"))
    assert (warned.code, warned.errors[0]) == (0, f"warning: {line}")
    refused = run("simulate", "-f", cluster, "--config", config(tmp_path, "Budgeted"), "--strict")
    assert (refused.code, refused.errors) == (
        1,
        [f"error: {line}", f'error: {cluster}:10: Budget default/all: unknown field "spec.somethingElse"'],
    )


def test_without_its_plugin_it_is_passed_over(run: Command, install: Install, cluster: Path) -> None:
    install("budgeted_elsewhere", {"Budgeted": "Budgeted"}, PLUGIN.replace("budgets.example.com", "b.example.com"))
    cluster.write_text(CLUSTER.replace("budgets.example.com", "b.example.com"))
    result = run("simulate", "-f", cluster)
    assert "notice: ignored, as this scheduler does not read them: 1 Budget (b.example.com/v1alpha1)" in result.errors


def test_plugin_that_would_read_it_is_named(run: Command, install: Install, cluster: Path, tmp_path: Path) -> None:
    source = PLUGIN.replace("budgets.example.com", "off.example.com").replace("Budgeted", "BudgetedOff")
    install("budgeted_off", {"BudgetedOff": "BudgetedOff"}, source)
    install("budgeted_kinds", {"budgets": "Budget"}, "from budgeted_off import Budget", group=KINDS_GROUP)
    cluster.write_text(CLUSTER.replace("budgets.example.com", "off.example.com"))
    notice = "notice: ignored, as no enabled plugin reads them: 1 Budget (off.example.com/v1alpha1); enable BudgetedOff"
    pod = "default/short"
    for command in (("simulate", "-f", cluster), ("explain", pod, "-f", cluster)):
        assert notice in run(*command).errors
        assert notice not in run(*command, "--config", config(tmp_path, "BudgetedOff")).errors


def test_two_plugins_with_a_struct_each_for_it_are_named(
    run: Command, install: Install, cluster: Path, tmp_path: Path
) -> None:
    source = PLUGIN.replace("budgets.example.com", "two.example.com")
    install("first_plugins", {"Budgeted": "Budgeted"}, source)
    install("second_plugins", {"Other": "Other"}, source.replace("Budgeted", "Other"))
    for order in (("Budgeted", "Other"), ("Other", "Budgeted")):
        result = run("simulate", "-f", cluster, "--config", config(tmp_path, *order))
        assert result.code == 1
        (error,) = result.errors
        assert error.startswith(f"error: {tmp_path}/config.yaml:5: profiles[0].plugins.multiPoint.enabled[")
        assert error.endswith(
            "two structs for the kind two.example.com/v1alpha1 Budget: "
            "first_plugins.Budget and second_plugins.Budget; keep one"
        )


# -- kinds of no plugin ------------------------------------------------------------------------------------------------

KINDS = """
from kframework.objects import ApiObject, ApiStruct, kind


class PoolStatus(ApiStruct, frozen=True, kw_only=True):
    phase: str = ""


@kind("{group}/v1", "pools")
class Pool(ApiObject, frozen=True, kw_only=True):
    status: PoolStatus = PoolStatus()
"""

POOL = """
apiVersion: {group}/v1
kind: Pool
metadata: {{name: blue}}
spec: {{anything: that stands here}}
status: {{phase: Open}}
"""


def test_kinds_of_a_distribution_may_be_in_files(run: Command, install: Install, cluster: Path) -> None:
    install("pool_kinds", {"pools": "Pool"}, KINDS.format(group="pools.example.com"), group=KINDS_GROUP)
    cluster.write_text(POOL.format(group="pools.example.com"))
    result = run("simulate", "-f", cluster)
    assert result.code == 0
    assert result.errors[:-1] == ["notice: ignored, as no enabled plugin reads them: 1 Pool (pools.example.com/v1)"]


def test_kinds_that_cannot_be_imported_are_a_warning(run: Command, install: Install, cluster: Path) -> None:
    install("broken_kinds", {"broken": "Pool"}, "1 / 0", group=KINDS_GROUP)
    cluster.write_text(POOL.format(group="closed.example.com"))
    assert run("simulate", "-f", cluster).errors[:2] == [
        (
            "warning: the kinds of 'broken_kinds:Pool' (from broken_kinds 1.0) cannot be loaded: "
            f"ZeroDivisionError: division by zero, at {cluster.parent}/site/broken_kinds/broken_kinds.py:1"
        ),
        "notice: ignored, as this scheduler does not read them: 1 Pool (closed.example.com/v1)",
    ]


def test_fake_api_serves_them(install: Install, cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("served_pools", {"pools": "Pool"}, KINDS.format(group="served.example.com"), group=KINDS_GROUP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site" / "served_pools"))
    cluster.write_text(POOL.format(group="served.example.com"))
    with fake_api("-f", cluster) as (api, kubeconfig):
        place = f"{server_of(kubeconfig)}/apis/served.example.com/v1"
        with urlopen(place) as response:
            assert [each["name"] for each in json.load(response)["resources"]] == ["pools", "pools/status"]
        with urlopen(f"{place}/pools") as response:
            (pool,) = json.load(response)["items"]
        assert (pool["spec"], pool["status"]) == ({"anything": "that stands here"}, {"phase": "Open"})
        assert api.end() == (0, [], [])
