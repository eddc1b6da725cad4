"""`--plugin`: classes of files and modules, in every command that has it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Command

PLUGINS = """
from beside_it import LEFT
from kframework import Plugin, hookimpl, unschedulable

class NotLeft(Plugin):
    name = "NotLeft"

    @hookimpl
    def filter(self, state, pod, node):
        return unschedulable("node(s) were left") if node.name == LEFT else None

class Again(NotLeft):
    pass

class NodeName(NotLeft):
    name = "NodeName"

class Pointless(Plugin):
    name = "Pointless"

class Nameless(Plugin):
    @hookimpl
    def filter(self, state, pod, node):
        return None

def function():
    pass
"""

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n"
IDLE = (
    "warning: no profile enables plugin 'NotLeft', so it does not run; to enable it, name it under"
    " plugins.multiPoint.enabled: [{name: NotLeft}]"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write some files, and forget afterwards what was imported of them."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    written = {
        "my-plugins.py": PLUGINS,
        "odd/types.py": PLUGINS,
        "odd/beside_it.py": "LEFT = 'left'\n",
        "beside_it.py": "LEFT = 'left'\n",
        "needy.py": "import no_such_module_anywhere\n",
        "unfinished.py": "x = (\n",
        "quits.py": PLUGINS.replace("return unschedulable(", "breakpoint() or unschedulable("),
        "cluster.yaml": "".join(
            f"apiVersion: v1\nkind: Node\nmetadata: {{name: {node}}}\nstatus: {{allocatable: {{pods: '9'}}}}\n---\n"
            for node in ("left", "right")
        )
        + "apiVersion: v1\nkind: Pod\nmetadata: {name: pod}\nspec: {containers: [{name: c}]}\n",
        "idle.yaml": CONFIG + "    filter: {}\n",
        "enabling.yaml": CONFIG + "    filter: {enabled: [{name: NotLeft}]}\n",
    }
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("my-plugins.py:NotLeft", ""),
        ("odd/types.py:NotLeft", ""),
        ("beside_it:NotLeft", "plugin 'beside_it:NotLeft': there is no NotLeft in beside_it"),
        (
            "my-plugins.py:NotLft",
            "plugin 'my-plugins.py:NotLft': there is no NotLft in my-plugins.py (did you mean 'NotLeft'?)",
        ),
        ("none.py:NotLeft", "plugin 'none.py:NotLeft': there is no such file"),
        (
            "needy.py:X",
            (
                "plugin 'needy.py:X': cannot be imported: ModuleNotFoundError: No module named "
                "'no_such_module_anywhere', at {folder}/needy.py:1"
            ),
        ),
        (
            "unfinished.py:X",
            (
                "plugin 'unfinished.py:X': cannot be imported: SyntaxError: '(' was never closed, "
                "at {folder}/unfinished.py:1"
            ),
        ),
        ("no.module:X", "plugin 'no.module:X': cannot be imported: ModuleNotFoundError: No module named 'no'"),
        (
            "my-plugins.py:Pointless",
            (
                "plugin 'Pointless' (from my-plugins.py:Pointless): extends no extension point: no method is marked"
                " @hookimpl ({folder}/my-plugins.py:18)"
            ),
        ),
        ("my-plugins.py:Nameless", "the class has no name: set name = 'Nameless'"),
        ("my-plugins.py:function", "'my-plugins.py:function' is not a subclass of kframework.Plugin"),
    ],
)
def test_class_is_imported_or_refused_in_one_line(run: Command, folder: Path, given: str, line: str) -> None:
    result = run("simulate", "-f", "cluster.yaml", "-o", "json", "--plugin", given)
    if not line:
        assert result.code == 0, result.err
        assert [outcome["node"] for outcome in json.loads(result.out)["items"]] == ["right"]
    else:
        assert (result.code, len(result.errors)) == (1, 1)
        assert result.errors[0].startswith("error: ") and result.errors[0].endswith(line.format(folder=folder))


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["my-plugins.py"], "write FILE.py:CLASS or MODULE:CLASS, not 'my-plugins.py'"),
        (["my-plugins.py:"], "write FILE.py:CLASS or MODULE:CLASS, not 'my-plugins.py:'"),
        (["my-plugins.py:NotLeft"] * 2, "my-plugins.py:NotLeft: plugin 'NotLeft' is given twice"),
        (["my-plugins.py:NotLeft", "my-plugins.py:Again"], "my-plugins.py:Again: plugin 'NotLeft' is given twice"),
    ],
)
def test_misspelt_plugin_option_is_refused(run: Command, folder: Path, given: list[str], line: str) -> None:
    options = [word for each in given for word in ("--plugin", each)]
    result = run("simulate", "-f", "cluster.yaml", *options)
    assert (result.code, result.errors[0]) == (2, f"error: Invalid value for '--plugin': {line}")


def test_modules_of_the_working_folder_and_installed_ones_are_found_by_name(run: Command, folder: Path) -> None:
    (folder / "by_name.py").write_text(PLUGINS)
    assert '"right"' in run("simulate", "-f", "cluster.yaml", "-o", "json", "--plugin", "by_name:NotLeft").out
    assert run("plugins", "list", "--plugin", "kframework.plugins.node_name:NodeName").code == 0


def test_file_is_one_module_however_often_it_is_named(run: Command, folder: Path) -> None:
    (folder / "my-plugins.py").write_text(PLUGINS + "\nprint('imported')\n")
    given = ["--plugin", "my-plugins.py:NotLeft", "--plugin", f"{folder}/my-plugins.py:NodeName"]
    assert run("plugins", "list", *given).out.count("imported") == 1


def test_configuration_enables_what_it_names_only(run: Command, folder: Path) -> None:
    given = ("--plugin", "my-plugins.py:NotLeft")
    for config, warnings in (("idle.yaml", [IDLE]), ("enabling.yaml", [])):
        checked = run("config", "check", config, *given)
        assert (checked.code, checked.out, checked.errors) == (0, f"{config}: ok\n", warnings)
        simulated = run("simulate", "-f", "cluster.yaml", "--config", config, *given)
        assert [line for line in simulated.errors if line.startswith("warning")] == warnings
    code, _, err = run("config", "check", "enabling.yaml")
    assert (code, "does not exist" in err) == (1, True)


def test_every_command_that_names_plugins_has_it(run: Command, folder: Path) -> None:
    given = ("--plugin", "my-plugins.py:NotLeft")
    listed = run("plugins", "list", *given).out
    assert [line.split() for line in listed.splitlines() if "NotLeft" in line] == [
        ["NotLeft", "my_plugins:NotLeft", "<none>", "filter"]
    ]
    assert "node(s) were left" in run("explain", "pod", "-f", "cluster.yaml", "-o", "wide", *given).out
    run("simulate", "-f", "cluster.yaml", "--record", "recording", *given)
    replayed = run("replay", "recording", "--report", "page.html", *given)
    assert (replayed.code, "all the same" in replayed.err) == (0, True)
    assert run("compare", "--recording", "recording", "--config", "enabling.yaml", *given).code == 0
    assert "node(s) were left" in run("explain", "pod", "--recording", "recording", "-o", "wide", *given).out
    assert run("rbac", "--config", "enabling.yaml", *given).code == 0
    assert run("run", "--config", "enabling.yaml", "--write-config-to", "effective.yaml", *given).code == 0
    refused = run("explain", "pod", *given)
    assert (refused.code, "only with -f or --recording" in refused.err) == (2, True)


def test_named_plugin_replaces_the_installed_one_of_its_name(run: Command, folder: Path) -> None:
    out = run("simulate", "-f", "cluster.yaml", "-o", "json", "--plugin", "my-plugins.py:NodeName").out
    assert [outcome["node"] for outcome in json.loads(out)["items"]] == ["right"]


@pytest.mark.slow
@pytest.mark.parametrize("command", [["simulate"], ["run", "--embedded", "--secure-port", "0"]])
def test_quitting_the_debugger_ends_the_process(folder: Path, command: list[str]) -> None:
    words = [*command, "-f", "cluster.yaml", "--plugin", "quits.py:NotLeft"]
    ended = subprocess.run(
        [sys.executable, "-m", "kframework", *words], input="q\n", capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 130
    assert "Traceback" not in ended.stderr
