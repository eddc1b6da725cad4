"""The example distribution, built, installed in a clean environment, and used from there."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.examples.clean_environment import ROOT, CleanEnvironment

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples/fewest_pods"
DEMO = ("simulate", "-f", ROOT / "examples/clusters/demo.yaml", "--config", ROOT / "examples/configs/demo.yaml")


@pytest.fixture(scope="module")
def demo(environment: CleanEnvironment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """What became of the pods of the demo, by name."""
    result = environment.run("kframework", *DEMO, "-o", "json", cwd=tmp_path_factory.mktemp("demo"))
    assert result.returncode == 0, result.stdout
    # Notices and the summary stand around the data.
    data = result.stdout[result.stdout.index("\n{") : result.stdout.rindex("}") + 1]
    return {item["pod"].removeprefix("default/"): item for item in json.loads(data)["items"]}


def test_installed_packages_are_the_ones_in_use(environment: CleanEnvironment, tmp_path: Path) -> None:
    code = "import kframework, fewest_pods; print(kframework.__file__); print(fewest_pods.__file__)"
    result = environment.run("python", "-c", code, cwd=tmp_path)
    files = [Path(line) for line in result.stdout.splitlines()]
    assert len(files) == 2
    assert all(file.is_relative_to(environment.folder) for file in files)


def test_plugins_of_the_example_are_installed(environment: CleanEnvironment, tmp_path: Path) -> None:
    result = environment.run("kframework", "plugins", "list", "-o", "json", cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    offered = {plugin["name"]: plugin["distribution"] for plugin in json.loads(result.stdout)["items"]}
    assert offered["FewestPods"] == "kframework-fewest-pods 0.1.0"
    assert offered["Together"] == "kframework-together 0.1.0"


def test_tests_of_the_example_pass(environment: CleanEnvironment, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    result = environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=tmp_path)
    assert result.returncode == 0, result.stdout


def test_demo_packs_with_one_profile_and_spreads_with_the_other(demo: dict[str, dict[str, object]]) -> None:
    assert len({demo[pod]["node"] for pod in demo if pod.startswith(("web", "api", "database"))}) == 1
    pods_on = Counter(item["node"] for item in demo.values())
    assert {demo[pod]["node"] for pod in demo if pod.startswith(("cache", "render"))} == {"east-1", "west-1"}
    assert abs(pods_on["east-1"] - pods_on["west-1"]) <= 1


def test_demo_shows_pods_of_every_outcome(demo: dict[str, dict[str, object]]) -> None:
    pending = {pod for pod, item in demo.items() if item["node"] is None}
    odd = {"too-big", "too-greedy", "no-such-device", "not-yet", "nobody-looks"}
    assert pending == odd | {"solve-1", "solve-2", "solve-3"}
    assert demo["train-3"]["node"] == "gpu-1"
    assert "timeout after waiting 30s at plugin Together" in str(demo["solve-1"]["message"])
