"""The manifests fit together, and the program that they run."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kframework.cli import app
from kframework.config.load import load_configuration
from kframework.process.http.endpoints import SHUTDOWN_TIMEOUT, scheduler_routes
from kframework.process.lease import RELEASE_TIMEOUT
from kframework.process.process import CLOSE_TIMEOUT
from kframework.scheduler.scheduler import EVENT_TIMEOUT
from tests.cli.conftest import Command, plain_terminal, run
from tests.deploy.command_lines import parse
from tests.examples.clean_environment import ROOT

__all__ = ["plain_terminal", "run"]

DEPLOY = ROOT / "deploy"
CONFIG = DEPLOY / "config.yaml"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    document for name in KUSTOMIZATION["resources"] for document in yaml.safe_load_all((DEPLOY / name).read_text())
]


def the(kind: str) -> dict[str, Any]:
    """Return the only object of a kind."""
    (found,) = (each for each in OBJECTS if each["kind"] == kind)
    return found


POD: dict[str, Any] = the("Deployment")["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
VOLUMES = {volume["name"]: volume for volume in POD["spec"]["volumes"]}


def test_kustomize_is_given_every_file_and_each_once() -> None:
    written = {file.name for file in DEPLOY.glob("*.yaml")}
    generated = [name for generator in KUSTOMIZATION["configMapGenerator"] for name in generator["files"]]
    assert sorted([*KUSTOMIZATION["resources"], *generated, "kustomization.yaml"]) == sorted(written)


def test_every_object_has_its_own_kind_and_name() -> None:
    keys = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in OBJECTS]
    assert len(keys) == len(set(keys))
    assert all("/" in each["apiVersion"] or each["apiVersion"] == "v1" for each in OBJECTS)


def test_all_is_in_the_namespace_that_is_made() -> None:
    namespace = the("Namespace")["metadata"]["name"]
    without = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
    namespaces = {each["kind"]: each["metadata"].get("namespace") for each in OBJECTS}
    assert {kind for kind, where in namespaces.items() if where is None} == without
    assert {where for where in namespaces.values() if where} == {namespace}
    assert [generator["namespace"] for generator in KUSTOMIZATION["configMapGenerator"]] == [namespace]
    assert load_configuration(CONFIG).settings.leader_election.resource_namespace == namespace


def test_rights_are_those_that_the_command_prints(run: Command) -> None:
    printed = run("rbac", "--config", CONFIG, "--namespace", the("Namespace")["metadata"]["name"]).out
    assert (DEPLOY / "rbac.yaml").read_text() == printed


def test_pods_run_as_the_account_that_has_the_rights() -> None:
    account = {"kind": "ServiceAccount", **the("ServiceAccount")["metadata"]}
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        assert the(kind)["subjects"] == [account]
    assert POD["spec"]["serviceAccountName"] == account["name"]


def test_selectors_choose_the_pods() -> None:
    selectors = [
        the("Deployment")["spec"]["selector"],
        the("NetworkPolicy")["spec"]["podSelector"],
        the("PodDisruptionBudget")["spec"]["selector"],
        *(constraint["labelSelector"] for constraint in POD["spec"]["topologySpreadConstraints"]),
    ]
    assert selectors == [{"matchLabels": POD["metadata"]["labels"]}] * 4


def test_image_is_of_this_version() -> None:
    (image,) = KUSTOMIZATION["images"]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (CONTAINER["image"], image["newTag"]) == (image["name"], version)


def test_command_line_is_accepted_and_names_the_configuration_that_is_mounted() -> None:
    flags = parse(app, CONTAINER["args"])
    (mount,) = (mount for mount in CONTAINER["volumeMounts"] if mount["name"] == "config")
    (generator,) = KUSTOMIZATION["configMapGenerator"]
    assert VOLUMES["config"]["configMap"]["name"] == generator["name"]
    assert flags["config"] in [f"{mount['mountPath']}/{name}" for name in generator["files"]]
    # Every mount has its volume, and every volume is mounted.
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == VOLUMES.keys()


def test_unknown_flag_is_reported() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse(app, [*CONTAINER["args"], "--leader-elected"])


def test_probes_use_the_served_port_and_paths() -> None:
    flags = parse(app, CONTAINER["args"])
    (port,) = CONTAINER["ports"]
    assert (flags["bind_address"], flags["secure_port"]) == ("0.0.0.0", port["containerPort"])
    routes = scheduler_routes(
        load_configuration(CONFIG), synced=bool, starting=str, stopping=bool, election=str, authorization=str
    )
    probes = [CONTAINER[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    assert [probe["port"] for probe in probes] == [port["name"]] * 2
    assert [probe["path"] for probe in probes] == ["/healthz", "/readyz"]
    assert {probe["path"] for probe in probes} <= {route.path for route in routes}


def test_several_replicas_elect_a_leader() -> None:
    election = load_configuration(CONFIG).settings.leader_election
    assert the("Deployment")["spec"]["replicas"] > 1
    assert election.leader_elect
    # A lease of its own: not that of the cluster's own scheduler.
    assert (election.resource_namespace, election.resource_name) != ("kube-system", "kube-scheduler")


def test_pods_are_restricted_as_their_namespace_demands() -> None:
    """The Pod Security Standard `restricted`, and a read-only file system."""
    assert the("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pod, container = POD["spec"]["securityContext"], CONTAINER["securityContext"]
    assert pod["runAsNonRoot"] and pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert {kind for volume in VOLUMES.values() for kind in volume if kind != "name"} == {"configMap", "emptyDir"}


def test_grace_period_covers_the_shutdown() -> None:
    configuration = load_configuration(CONFIG)
    closing = configuration.options.hook_timeouts.close
    scheduler = EVENT_TIMEOUT + closing + closing  # plugins, then extenders
    lease = RELEASE_TIMEOUT + CLOSE_TIMEOUT
    endpoints = 2 * SHUTDOWN_TIMEOUT  # requests under way are waited for, then cancelled and waited for
    longest = scheduler + lease + endpoints
    assert f" {longest:g}.\n" in (DEPLOY / "deployment.yaml").read_text()
    assert POD["spec"]["terminationGracePeriodSeconds"] > longest


def test_one_replica_at_a_time_may_go() -> None:
    budget = the("PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


def test_quota_allows_the_priority_class_of_the_pods() -> None:
    quota = the("ResourceQuota")["spec"]
    (scope,) = quota["scopeSelector"]["matchExpressions"]
    used = [POD["spec"]["priorityClassName"]]
    assert scope == {"scopeName": "PriorityClass", "operator": "In", "values": used}
    # Also while all replicas are replaced, and the replaced ones have not ended.
    assert int(quota["hard"]["pods"]) >= 4 * the("Deployment")["spec"]["replicas"]


def test_resources_are_requested() -> None:
    assert CONTAINER["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "cpu" not in CONTAINER["resources"]["limits"]  # a scheduler that is throttled loses its lease


def shown() -> Iterator[str]:
    """Yield the commands of the program that the README shows."""
    for line in (DEPLOY / "README.md").read_text().splitlines():
        if line.strip().startswith("$ kframework "):
            yield line.strip().removeprefix("$ kframework ")


@pytest.mark.parametrize("command", list(shown()))
def test_commands_that_are_shown_are_accepted(command: str) -> None:
    parse(app, command.partition(" > ")[0].split())


def test_readme_shows_the_command_that_prints_the_rights() -> None:
    assert "rbac --config deploy/config.yaml --namespace kframework > deploy/rbac.yaml" in list(shown())


def test_files_that_the_readme_links_to_are_there() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (DEPLOY / "README.md").read_text())
    assert links and [link for link in links if not (DEPLOY / link).exists()] == []
