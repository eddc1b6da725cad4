"""`kframework plugins list`."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.core.runtime.registry import Registry
from tests.cli.conftest import Command, Install

PLUGIN = """
from kframework import Plugin, hookimpl

class Quiet(Plugin):
    name = "Quiet"
    reads = "pods"

    @hookimpl
    def score(self, state, pod, node):
        return 0

    @hookimpl
    def pre_enqueue(self, pod):
        return None

class Loud(Plugin):
    name = "Loud"

    @hookimpl
    def permit(self, state, pod, node_name):
        return None
"""

SDK = f"kframework-sdk {version('kframework-sdk')}"


@pytest.fixture(autouse=True)
def third_parties(install: Install) -> None:
    """Install one distribution that works, one that does not, and one that claims a name of the first."""
    install("quiet_plugins", {"Quiet": "Quiet", "Loud": "Loud"}, PLUGIN)
    install("sad_plugins", {"Sad": "Sad"}, "import no_such_module_anywhere\n", version="2.1")
    install("rude_plugins", {"Loud": "Loud"}, PLUGIN)


def cells(out: str) -> dict[str, list[str]]:
    """Split a table at its gaps: the rows by their first cell."""
    rows = [[cell.strip() for cell in line.split("  ") if cell] for line in out.splitlines()]
    return {first: rest for first, *rest in rows}


def test_table_has_a_row_per_plugin(run: Command, tmp_path: Path) -> None:
    code, out, err = run("plugins", "list")
    rows = cells(out)
    assert code == 0
    assert rows["NAME"] == ["SOURCE", "READS", "POINTS"]
    assert rows["NodeName"] == ["built-in", "node", "filter"]
    assert rows["PodGroupPodsCount"] == ["built-in", "<none>", "placement_score"]
    assert rows["Quiet"] == ["quiet_plugins 1.0", "pods, unsigned", "pre_enqueue, score"]
    assert rows["Sad"] == ["sad_plugins 2.1 (broken)", "<none>", "<none>"]
    assert [line for line in out.splitlines() if line.startswith("Loud ")] == [
        line for line in out.splitlines() if "_plugins 1.0 (conflict)" in line
    ]
    assert err.splitlines() == [
        (
            "warning: plugin 'Loud': several distributions offer the name: quiet_plugins 1.0 (quiet_plugins:Loud) and "
            "rude_plugins 1.0 (rude_plugins:Loud); uninstall one"
        ),
        (
            "warning: plugin 'Sad' (from sad_plugins 2.1): cannot be imported: ModuleNotFoundError: No module named "
            f"'no_such_module_anywhere', at {tmp_path}/site/sad_plugins/sad_plugins.py:1"
        ),
    ]


def test_wide_table_shows_the_location_of_a_plugin(run: Command) -> None:
    rows = cells(run("plugins", "list", "-o", "wide").out)
    assert rows["NAME"] == ["STATUS", "DISTRIBUTION", "TARGET", "READS", "POINTS"]
    assert rows["NodeName"] == ["built-in", SDK, "kframework.plugins.node_name:NodeName", "node", "filter"]
    assert rows["Quiet"] == [
        "installed",
        "quiet_plugins 1.0",
        "quiet_plugins:Quiet",
        "pods, unsigned",
        "pre_enqueue, score",
    ]
    assert rows["Sad"][:3] == ["broken", "sad_plugins 2.1", "sad_plugins:Sad"]


def test_json_and_yaml_are_complete(run: Command) -> None:
    listed = json.loads(run("plugins", "list", "-o", "json").out)
    assert yaml.safe_load(run("plugins", "list", "-o", "yaml").out) == listed
    by_name = {row["name"]: row for row in listed["items"]}
    assert by_name["Quiet"] == {
        "name": "Quiet",
        "status": "installed",
        "points": ["pre_enqueue", "score"],
        "reads": "pods",
        "signs": False,
        "distribution": "quiet_plugins 1.0",
        "target": "quiet_plugins:Quiet",
        "message": "",
    }
    assert (by_name["Sad"]["status"], by_name["Sad"]["points"]) == ("broken", [])
    assert [row["distribution"] for row in listed["items"] if row["status"] == "conflict"] == [
        "rude_plugins 1.0",
        "quiet_plugins 1.0",
    ]


def test_every_plugin_is_listed_once_by_name(run: Command) -> None:
    names = run("plugins", "list", "-o", "name").out.splitlines()
    assert names == [f"plugin/{name}" for name in sorted({*IN_TREE_PLUGINS, *Registry.from_installed()})]
