"""`kframework config check` and `config show`."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest
import yaml

from kframework import ConfigError, Plugin, PluginError
from kframework.config.load import default_configuration
from kframework.config.show import effective_yaml
from kframework.core.runtime.registry import Registry, load_in_tree_args
from kframework.testing import check_plugin
from tests.cli.conftest import Command, Install
from tests.examples.clean_environment import ROOT

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

BROKEN_PLUGIN = "raise RuntimeError('no such device')\n"

PICKY_PLUGIN = """
from kframework import Plugin, PluginArgs, hookimpl

class PickyArgs(PluginArgs):
    much: int

class Picky(Plugin):
    name = "Picky"
    Args = PickyArgs

    @hookimpl
    def pre_enqueue(self, pod):
        return None
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_good_file_is_ok(run: Command, file: Path) -> None:
    file.write_text(HEADER)
    result = run("config", "check", file)
    assert (result.code, result.out, result.errors) == (0, f"{file}: ok\n", [])


def test_json_has_the_errors_of_each_file(run: Command, file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    file.write_text(HEADER)
    bad.write_text(f"{HEADER}parallelism: -1\n")
    done = run("config", "check", file, bad, "-o", "json")
    good, refused = json.loads(done.out)["files"]
    assert (done.code, done.errors) == (1, [])
    assert good == {"file": str(file), "ok": True, "errors": []}
    assert (refused["ok"], [(each["path"], each["line"]) for each in refused["errors"]]) == (
        False,
        [("parallelism", 3)],
    )


def test_stdin_is_checked(run: Command) -> None:
    assert run("config", "check", "-", stdin=HEADER).out == "-: ok\n"


def test_suspicious_configuration_is_a_warning(run: Command, file: Path) -> None:
    file.write_text(HEADER + "profiles: [{pluginConfig: [{name: Mine, args: {}}]}]\n")
    result = run("config", "check", file)
    message = "args of Mine have no effect: the profile does not enable it"
    assert (result.code, result.errors) == (0, [f"warning: {file}:3: profiles[0].pluginConfig: {message}"])


def test_files_that_only_the_scheduler_has_are_warnings(run: Command, file: Path) -> None:
    extender = "{urlPrefix: 'https://x', filterVerb: f, tlsConfig: {caFile: /none/ca.crt}}"
    file.write_text(f"{HEADER}clientConnection: {{kubeconfig: /none/conf}}\nextenders: [{extender}]\n")
    result = run("config", "check", file)
    remedy = "name another here, or with --kubeconfig, which takes precedence (KUBECONFIG does not)"
    assert (result.code, result.out) == (0, f"{file}: ok\n")
    assert result.errors == [
        "warning: tlsConfig of extender https://x: there is no file /none/ca.crt on this machine",
        f"warning: {file}:3: clientConnection.kubeconfig: there is no file /none/conf; {remedy}",
    ]


def test_exporter_of_traces_is_checked(run: Command, file: Path) -> None:
    tracing = "{exporter: otlp, samplingRatePerMillion: 1, endpoint: 'http://user:secret@example.com'}"
    options = f"---\napiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\ntracing: {tracing}\n"
    file.write_text(HEADER + options)
    code, out, err = run("config", "check", file)
    assert (code, out) == (1, "")
    assert err.startswith("error: tracing.endpoint: ")


def test_configuration_of_another_engine_is_checked_by_it(run: Command, file: Path) -> None:
    file.write_text("actions: allocate\ntiers: [{plugins: [{name: nix}]}]\n")
    remedy = "kframework batch reads it, and config check --engine batch checks it"
    assert run("config", "check", file).errors == [f"error: {file}:1: actions and tiers are Volcano's: {remedy}"]
    code, out, err = run("config", "check", "--engine", "batch", file)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {file}:2: tiers[0].plugins[0].name: unknown plugin 'nix': ")


def test_every_problem_is_a_line(run: Command, file: Path) -> None:
    file.write_text(HEADER + "parallelism: many\nprofiles:\n- percentageOfNodesToScore: half\n")
    code, out, err = run("config", "check", file)
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        f'error: {file}:3: parallelism: expected an integer, got "many"',
        f'error: {file}:5: profiles[0].percentageOfNodesToScore: expected an integer, got "half"',
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [b\n", "2: is not YAML: did not find expected ',' or ']'"),
        (
            "apiVersion: v1\nkind: Node\n",
            (
                "2: kind: couldn't decode as KubeSchedulerConfiguration, got Node (v1); want "
                "KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) or "
                "KFrameworkConfiguration (kframework.dev/v1)"
            ),
        ),
        (
            HEADER + "profiles: [{plugins: {score: {enabled: [{name: NodeResourceFit}]}}}]\n",
            (
                '3: profiles[0].plugins.score.enabled[0].name: ScorePlugin "NodeResourceFit" does not exist '
                "(did you mean 'NodeResourcesFit'?)"
            ),
        ),
    ],
)
def test_error_names_its_line(run: Command, file: Path, text: str, message: str) -> None:
    file.write_text(text)
    assert run("config", "check", file) == (1, "", f"error: {file}:{message}\n")


def test_missing_file_is_reported(run: Command, file: Path) -> None:
    assert run("config", "check", file) == (1, "", f"error: {file}: cannot be read: No such file or directory\n")


def test_plugin_that_cannot_be_imported(run: Command, install: Install, file: Path) -> None:
    install("broken_module", {"Broken": "Broken"}, BROKEN_PLUGIN)
    file.write_text(HEADER + "profiles: [{plugins: {multiPoint: {enabled: [{name: Broken}]}}}]\n")
    code, out, err = run("config", "check", file)
    assert (code, out) == (1, "")
    line = f"{file.parent}/site/broken_module/broken_module.py:1"
    fault = f"plugin 'Broken' (from broken_module 1.0): cannot be imported: RuntimeError: no such device, at {line}"
    assert err == f"error: {file}:3: profiles[0].plugins.multiPoint.enabled[0].name: {fault}\n"


def test_args_that_a_plugin_refuses(run: Command, install: Install, file: Path) -> None:
    install("picky_module", {"Picky": "Picky"}, PICKY_PLUGIN)
    plugins = "plugins: {multiPoint: {enabled: [{name: Picky}]}}, pluginConfig: [{name: Picky, args: {mch: 1}}]"
    file.write_text(f"{HEADER}profiles: [{{{plugins}}}]\n")
    code, _, err = run("config", "check", file)
    assert code == 1
    assert all(line.startswith(f"error: {file}:3: profiles[0].pluginConfig[0].args.m") for line in err.splitlines())
    assert "(did you mean 'much'?)" in err


def test_show_without_a_file_is_the_default(run: Command) -> None:
    assert run("config", "show") == (
        0,
        effective_yaml(default_configuration(), load_in_tree_args(default_configuration())),
        "",
    )


def test_show_fills_a_file_in(run: Command, file: Path) -> None:
    file.write_text(HEADER + "profiles: [{schedulerName: mine, percentageOfNodesToScore: 7}]\n")
    code, out, err = run("config", "show", file)
    scheduler, _ = yaml.safe_load_all(out)
    (profile,) = scheduler["profiles"]
    assert (code, err) == (0, "")
    assert (profile["schedulerName"], profile["percentageOfNodesToScore"]) == ("mine", 7)
    assert "PrioritySort" in [plugin["name"] for plugin in profile["plugins"]["multiPoint"]["enabled"]]


def test_shown_configuration_loads_as_the_same(run: Command, file: Path) -> None:
    file.write_text(HEADER + "profiles: [{schedulerName: mine}]\n")
    shown = run("config", "show", file).out
    assert run("config", "show", "-", stdin=shown).out == shown


MISSPELT_PLUGIN = """
from kframework import Plugin, hookimpl

class Misspelt(Plugin):
    name = "Misspelt"

    @hookimpl
    def score(self, state, pod, node):
        return 0

    def filtr(self, state, pod, node):
        return None
"""


def test_configuration_that_would_load_wrong_is_refused_by_every_command(
    run: Command, install: Install, file: Path
) -> None:
    install("misspelt_module", {"Misspelt": "Misspelt"}, MISSPELT_PLUGIN)
    file.write_text(HEADER + "profiles:\n- plugins:\n    score: {enabled: [{name: Misspelt}]}\n")
    method = "method filtr(state, pod, node) looks like a hook but is not one (did you mean 'filter'?)"
    fault = f"plugin 'Misspelt' (from misspelt_module 1.0): {method}"
    at_its_line = f"error: {file}:5: profiles[0].plugins.score.enabled[0].name: {fault}; rename it to _filtr"
    node = file.with_name("node.yaml")
    node.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: a}\n")
    for command in (
        ("config", "check", file),
        ("simulate", "-f", node, "--config", file),
        ("run", "--config", file, "--embedded", "--secure-port", "0"),
        ("rbac", "--config", file),
    ):
        code, _, err = run(*command)
        assert (code, err.startswith(at_its_line)) == (1, True), err
    _, out, err = run("plugins", "list")
    assert "misspelt_module 1.0 (broken)" in out
    assert f"warning: {fault}" in err
    with pytest.raises(PluginError, match=re.escape(method)):
        Registry.from_installed().load("Misspelt")
    with pytest.raises(ConfigError, match=re.escape(method)):
        check_plugin(cast("type[Plugin]", vars(import_module("misspelt_module"))["Misspelt"]))


def test_suspicious_plugin_configuration_is_a_notice(run: Command, file: Path) -> None:
    file.write_text(HEADER + "profiles:\n- plugins:\n    preScore: {disabled: [{name: TaintToleratoin}]}\n")
    place = f"{file}:5: profiles[0].plugins.preScore.disabled[0].name"
    notice = f"notice: {place}: there is no plugin 'TaintToleratoin' to disable (did you mean 'TaintToleration'?)"
    result = run("config", "check", file)
    assert (result.code, result.errors) == (0, [notice])


DESCRIBED_PLUGIN = '''
from kframework import Plugin, PluginArgs, hookimpl

class DescribedArgs(PluginArgs):
    much: int = 1
    """How much."""

class Described(Plugin[DescribedArgs]):
    name = "Described"

    @hookimpl
    def pre_enqueue(self, pod):
        return None
'''


def test_schema_has_the_args_of_installed_plugins(run: Command, install: Install) -> None:
    install("described_module", {"Described": "Described"}, DESCRIBED_PLUGIN)
    code, out, err = run("config", "schema")
    cases = json.loads(out)["$defs"]["PluginConfigEntry"]["allOf"]
    (args,) = [
        case["then"]["properties"]["args"] for case in cases if case["if"]["properties"]["name"]["const"] == "Described"
    ]
    assert (code, err) == (0, "")
    assert args["properties"]["much"] == {"default": 1, "description": "How much.", "type": "integer"}


def test_plugin_that_cannot_be_imported_leaves_the_schema_to_the_others(
    run: Command, install: Install, tmp_path: Path
) -> None:
    install("broken_module", {"Broken": "Broken"}, BROKEN_PLUGIN)
    code, out, err = run("config", "schema")
    line = f"{tmp_path}/site/broken_module/broken_module.py:1"
    fault = f"plugin 'Broken' (from broken_module 1.0): cannot be imported: RuntimeError: no such device, at {line}"
    assert (code, err) == (0, f"warning: {fault}; its args are not checked\n")
    assert "NodeResourcesFitArgs" in out


def test_several_files_are_checked_each_by_itself(run: Command, tmp_path: Path) -> None:
    good, bad, worse = (tmp_path / name for name in ("a.yaml", "b.yaml", "c.yaml"))
    good.write_text(HEADER)
    bad.write_text(HEADER + "profiles: []\nparallelism: many\n")
    worse.write_text(HEADER + "parallelism: 0\n")
    code, out, err = run("config", "check", worse, good, bad)
    assert (code, out) == (1, f"{good}: ok\n")
    assert err.splitlines() == [
        f'error: {bad}:4: parallelism: expected an integer, got "many"',
        f"error: {worse}:3: parallelism: Invalid value: 0: should be an integer value greater than zero",
    ]


def test_hook_for_pre_commit_runs_as_pre_commit_runs_it(run: Command, tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {"id", "name", "entry", "language"} <= hook.keys()
    assert (hook["language"], hook["types"]) == ("python", ["yaml"])
    program, *arguments = shlex.split(hook["entry"])
    assert program in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(HEADER)
    assert run(*arguments, *files).code == 0
    files[1].write_text("kind: Other\n")
    assert run(*arguments, *files).code == 1
