"""`kframework rbac`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Command, Install
from tests.cli.test_declared_kinds import PLUGIN

BARE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceName: mine, resourceNamespace: there}
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: DefaultBinder}%s]
"""

PRINTED = """\
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: kframework
rules:
- apiGroups:
  - ''
  resources:
  - nodes
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - pods/binding
  verbs:
  - create
- apiGroups:
  - ''
  resources:
  - pods/status
  verbs:
  - patch
- apiGroups:
  - events.k8s.io
  resources:
  - events
  verbs:
  - create
  - patch
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: kframework
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: kframework
subjects:
- kind: ServiceAccount
  name: kframework
  namespace: kube-system
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: kframework
  namespace: there
rules:
- apiGroups:
  - ''
  resources:
  - events
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - get
  - watch
  - update
  resourceNames:
  - mine
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: kframework
  namespace: there
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: kframework
subjects:
- kind: ServiceAccount
  name: kframework
  namespace: kube-system
"""


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    file = tmp_path / "bare.yaml"
    file.write_text(BARE % "")
    return file


def test_objects_are_printed_as_kubectl_takes_them(run: Command, bare: Path) -> None:
    assert run("rbac", "--config", bare) == (0, PRINTED, "")
    assert run("rbac", "--config", "-", stdin=BARE % "").out == PRINTED


def test_as_json_they_are_a_list(run: Command, bare: Path) -> None:
    printed = json.loads(run("rbac", "--config", bare, "-o", "json").out)
    assert printed == {"apiVersion": "v1", "kind": "List", "items": list(yaml.safe_load_all(PRINTED))}


def test_account_and_roles_can_be_named(run: Command, bare: Path) -> None:
    objects = list(yaml.safe_load_all(run("rbac", "--config", bare, "--name", "mine", "-n", "here").out))
    assert {each["metadata"]["name"] for each in objects} == {"mine"}
    accounts = [each["subjects"] for each in objects if "subjects" in each]
    assert accounts == [[{"kind": "ServiceAccount", "name": "mine", "namespace": "here"}]] * 2


def test_default_profile_needs_no_file(run: Command) -> None:
    cluster_role, *_ = yaml.safe_load_all(run("rbac").out)
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]} in cluster_role[
        "rules"
    ]


def test_kinds_that_plugins_declare_are_granted(run: Command, install: Install, tmp_path: Path) -> None:
    install("granted_budgets", {"Budgeted": "Budgeted"}, PLUGIN.replace("budgets.example.com", "granted.example.com"))
    file = tmp_path / "config.yaml"
    file.write_text(BARE % ", {name: Budgeted}")
    cluster_role, *_ = yaml.safe_load_all(run("rbac", "--config", file).out)
    seeing = {"apiGroups": ["granted.example.com"], "resources": ["budgets"], "verbs": ["list", "watch"]}
    assert seeing in cluster_role["rules"]


def test_configuration_that_cannot_be_used_is_refused(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(BARE % ", {name: Nobody}")
    result = run("rbac", "--config", file)
    assert (result.code, result.out) == (1, "")
    assert f"{file}:" in result.err and "Nobody" in result.err


def test_reviews_take_rights_of_their_own(run: Command) -> None:
    rules = [
        rule
        for each in json.loads(run("rbac", "--reviews", "-o", "json").out)["items"]
        for rule in each.get("rules", [])
    ]
    without = [rule for each in json.loads(run("rbac", "-o", "json").out)["items"] for rule in each.get("rules", [])]
    assert [rule for rule in rules if rule not in without] == [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]
