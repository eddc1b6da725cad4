"""What kustomize makes of the manifests is what was meant: names that belong together still do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from kframework.config.load import default_configuration, parse
from tests.cli.conftest import Command, plain_terminal, run
from tests.deploy.rendered import rendered, the_rendered
from tests.deploy.test_manifests import CONFIG, DEPLOY, OBJECTS
from tests.examples.clean_environment import ROOT

__all__ = ["plain_terminal", "run"]

pytestmark = pytest.mark.tool("kubectl")


def key(each: dict[str, Any]) -> tuple[str, str]:
    return each["kind"], each["metadata"]["name"]


def with_components(tmp_path: Path, *names: str) -> tuple[dict[str, Any], ...]:
    """Render a copy of the manifests with these components switched on."""
    copy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, copy)
    written = yaml.safe_load((copy / "kustomization.yaml").read_text())
    (copy / "kustomization.yaml").write_text(yaml.safe_dump({**written, "components": list(names)}))
    return rendered(copy)


@pytest.mark.parametrize("components", [(), ("in-place",), ("in-place", "large")], ids="+".join)
def test_rights_are_those_that_the_command_prints_for_the_configuration_that_is_deployed(
    run: Command, tmp_path: Path, components: tuple[str, ...]
) -> None:
    objects = with_components(tmp_path, *components)
    (account,) = (each["metadata"] for each in objects if each["kind"] == "ServiceAccount")
    (data,) = (each["data"] for each in objects if each["kind"] == "ConfigMap")
    deployed = tmp_path / "config.yaml"
    deployed.write_text(data[CONFIG.name])
    printed = run("rbac", "--config", deployed, "--namespace", account["namespace"], "--name", account["name"]).out
    wanted = list(yaml.safe_load_all(printed))
    assert {key(each) for each in wanted} == {key(each) for each in objects if "Role" in each["kind"]}
    for each in wanted:
        assert each in objects


def test_in_place_takes_turns_with_kube_scheduler(tmp_path: Path) -> None:
    (data,) = (each["data"] for each in with_components(tmp_path, "in-place") if each["kind"] == "ConfigMap")
    kube_schedulers = default_configuration().settings
    configuration = parse(data[CONFIG.name])
    for field in ("leader_elect", "resource_name", "resource_namespace"):
        assert getattr(configuration.settings.leader_election, field) == getattr(kube_schedulers.leader_election, field)
    assert [profile.scheduler_name for profile in configuration.profiles] == ["default-scheduler"]


def test_name_that_gets_a_hash_is_no_other_objects() -> None:
    """In kustomize's eyes every mention of such a name means the generated object, also in a Role's resourceNames."""
    (generator,) = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["configMapGenerator"]
    assert generator["name"] not in {each["metadata"]["name"] for each in OBJECTS}
    made = the_rendered("ConfigMap")["metadata"]["name"]
    assert made.startswith(f"{generator['name']}-")
    volumes = the_rendered("Deployment")["spec"]["template"]["spec"]["volumes"]
    assert [volume["configMap"]["name"] for volume in volumes if "configMap" in volume] == [made]


def test_all_else_is_as_it_is_written() -> None:
    changed = {"ConfigMap", "Deployment"}
    assert [each for each in OBJECTS if each["kind"] not in changed and each not in rendered()] == []


def test_image_is_pinned_by_the_digest_that_is_filled_in(tmp_path: Path) -> None:
    digest = f"sha256:{'5' * 64}"
    copy = tmp_path / "deploy"
    shutil.copytree(ROOT / "deploy", copy)
    written = yaml.safe_load((copy / "kustomization.yaml").read_text())
    written["images"][0] |= {"newName": "registry.example.com/kframework", "digest": digest}
    (copy / "kustomization.yaml").write_text(yaml.safe_dump(written))
    (deployment,) = (each for each in rendered(copy) if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    # Newer ones leave the tag in between, which counts for nothing beside a digest.
    assert container["image"].startswith("registry.example.com/kframework")
    assert container["image"].endswith(f"@{digest}")
