"""What authors of plugins and configurations get wrong: each gives one line with the place and the remedy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Install

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ENABLED = HEADER + "profiles:\n- plugins:\n    multiPoint: {enabled: [{name: Mine}]}\n"

PLUGIN = """
from kframework import Plugin, PluginArgs, hookimpl

class MineArgs(PluginArgs):
    most_pods: int = 1

class Mine(Plugin[MineArgs]):
    name = "Mine"
    reads = "pods"

    @hookimpl
    def {hook}
"""
GOOD = PLUGIN.format(hook="filter(self, state, pod, node):\n        return None\n")
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}\n"
POD = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"

AT_NAME = r"5: profiles\[0\].plugins.multiPoint.enabled\[0\].name: "
ARGS = ENABLED + "  pluginConfig:\n  - name: Mine\n    args: "
HERE = r" \(/.*/mine.py:11\)"
MAX_MATCHES = r"plugin 'Mine' \(from mine 1.0\)"


@pytest.mark.parametrize(
    ("offers", "source", "text", "message"),
    [
        pytest.param(
            {"Mine": "Mien"},
            GOOD,
            ENABLED,
            AT_NAME + MAX_MATCHES + r": cannot be imported: .*'Mien'; its entry point names mine:Mien: correct it,"
            r" or give .*mine.py such a class \(did you mean 'Mine'\?\)",
            id="no such class",
        ),
        pytest.param(
            {"Mine": "Mine"},
            None,
            ENABLED,
            AT_NAME
            + MAX_MATCHES
            + ": cannot be imported: ModuleNotFoundError: No module named 'mine'; its entry point names"
            " mine:Mine: correct it, or install the distribution again if its folder was moved or deleted",
            id="no such module, or a stale editable install",
        ),
        pytest.param(
            {"Mine": "Mine"},
            "import mine_needs_this",
            ENABLED,
            AT_NAME
            + MAX_MATCHES
            + ": cannot be imported: ModuleNotFoundError: No module named 'mine_needs_this', at .*mine.py:1",
            id="a module that the plugin's own needs",
        ),
        pytest.param(
            {"Mine": "Mine"},
            GOOD,
            ARGS + "{mostPod: 1}\n",
            r"8: profiles\[0\].pluginConfig\[0\].args.mostPod: unknown field \"mostPod\""
            r" \(did you mean 'mostPods'\?\)",
            id="unknown field of args",
        ),
        pytest.param(
            {"Mine": "Mine"},
            GOOD,
            ARGS + "{mostPods: many}\n",
            r'8: profiles\[0\].pluginConfig\[0\].args.mostPods: expected an integer, got "many"',
            id="wrong type in args",
        ),
        pytest.param(
            {"Mine": "Mine"},
            GOOD,
            ENABLED.replace("/v1", "/v2"),
            r'1: apiVersion: no kind .* for version ".*/v2"; want kubescheduler.config.k8s.io/v1',
            id="wrong apiVersion",
        ),
        pytest.param(
            {"Mine": "Mine"},
            GOOD.replace("    def filter", "    async def filter"),
            ENABLED,
            AT_NAME
            + MAX_MATCHES
            + r", hook filter: must be a plain function: the scheduling cycle does not await it"
            + HERE,
            id="an async hook where none is allowed",
        ),
        pytest.param(
            {"Mine": "Mine"},
            GOOD.replace("filter(self, state, pod, node)", "filter(self, state, pod, nod)"),
            ENABLED,
            AT_NAME
            + MAX_MATCHES
            + r", hook filter: takes \(state, pod, nod\) where the contract says \(state, pod, node\)"
            + HERE,
            id="a wrong argument",
        ),
    ],
)
def test_mistake_is_one_clear_line(
    run: Command, install: Install, tmp_path: Path, offers: dict[str, str], source: str | None, text: str, message: str
) -> None:
    install("mine", offers, source or "")
    if source is None:
        (tmp_path / "site" / "mine" / "mine.py").unlink()
    file = tmp_path / "config.yaml"
    file.write_text(text)
    code, out, err = run("config", "check", file)
    assert (code, out) == (1, "")
    assert re.fullmatch(f"error: {file}:{message}\n", err), err


def test_two_distributions_with_one_name_are_both_named(run: Command, install: Install, tmp_path: Path) -> None:
    install("mine", {"Mine": "Mine"}, GOOD)
    install("other", {"Mine": "Mine"}, GOOD)
    file = tmp_path / "config.yaml"
    file.write_text(ENABLED)
    _, _, err = run("config", "check", file)
    claims = "mine 1.0 (mine:Mine) and other 1.0 (other:Mine); uninstall one"
    assert err.endswith(f"name: plugin 'Mine': several distributions offer the name: {claims}\n")
    assert err.startswith(f"error: {file}:5: ") and err.count("\n") == 1


def test_editable_install_older_than_its_project_is_reported(run: Command, install: Install, tmp_path: Path) -> None:
    install("mine", {}, GOOD)
    project, file = tmp_path / "project", tmp_path / "config.yaml"
    project.mkdir()
    (project / "pyproject.toml").write_text('[project.entry-points."kframework.plugins"]\nMine = "mine:Mine"\n')
    direct = {"url": project.as_uri(), "dir_info": {"editable": True}}
    (tmp_path / "site" / "mine" / "mine-1.0.dist-info" / "direct_url.json").write_text(json.dumps(direct))
    file.write_text(ENABLED)
    _, _, err = run("config", "check", file)
    assert re.fullmatch(
        f"error: {file}:{AT_NAME}plugin 'Mine': {project}/pyproject.toml offers it, but mine 1.0 was installed before"
        f" that: install it again, as with pip install --editable {project}\n",
        err,
    )


def test_args_of_a_misspelt_plugin_are_a_warning(run: Command, install: Install, tmp_path: Path) -> None:
    install("mine", {"Mine": "Mine"}, GOOD)
    file = tmp_path / "config.yaml"
    file.write_text(ARGS.replace("name: Mine\n", "name: Mien\n") + "{mostPods: 1}\n")
    message = "args of Mien have no effect: the profile does not enable it (did you mean 'Mine'?)"
    assert run("config", "check", file).errors == [f"warning: {file}:6: profiles[0].pluginConfig: {message}"]


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (
            "score(self, state, pod, node):\n        pass\n",
            'score: answered None, which is not an integer; return one, from 0 to 100 location="{file}:11"',
        ),
        (
            (
                "score(self, state, pod, node):\n        return 1\n\n"
                "    @hookimpl\n    def normalize_score(self, state, pod, scores):\n        pass\n"
            ),
            (
                "normalize_score: TypeError: answered None for 2 rows; return an integer for each, in their order"
                ' location="{file}:15"'
            ),
        ),
        (
            "score(self, state, pod, node):\n        return 1000\n",
            (
                "score: the final score is 1000; keep it within 0 and 100, or scale the scores of all nodes in "
                'normalize_score location="{file}:11"'
            ),
        ),
        (
            "filter(self, state, pod, node):\n        return 1 / 0\n",
            'filter: ZeroDivisionError: division by zero location="{file}:13"',
        ),
        (
            "filter(self, state, pod, node):\n        pod.labels['a'] = 'b'\n",
            (
                "filter: ReadOnlyError: pod default/p: metadata.labels is read-only, and written to in {file}:13;"
                " change a copy: dict(...)"
            ),
        ),
    ],
)
def test_hook_that_fails_in_a_simulation_is_blamed(
    run: Command, install: Install, tmp_path: Path, hook: str, message: str
) -> None:
    install("mine", {"Mine": "Mine"}, PLUGIN.format(hook=hook))
    config, cluster = tmp_path / "config.yaml", tmp_path / "cluster.yaml"
    config.write_text(ENABLED)
    cluster.write_text(f"{NODE}---\n{NODE.replace('name: a', 'name: b')}{POD}")
    (line, *_) = run("simulate", "-f", cluster, "--config", config, "--dev").err.splitlines()
    said = message.format(file=tmp_path / "site" / "mine" / "mine.py")
    assert line == f"error: plugin 'Mine' (from mine 1.0), hook {said}"


WITH_CONTRACT = """
from kframework.testing import PluginContract, make_pod
from mine import Mine

class TestMine(PluginContract):
    plugin = Mine
    pods = [make_pod("labelled", labels={"team": "a"})]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hooks", "test", "told"),
    [
        pytest.param(
            ["score(self, state, pod, node):\n        return 20 * len(node.pods)\n"],
            "test_scores_are_in_range",
            r"result: +\d+ does not lie in 0..100\n.* fix: score from 0 to 100, or add normalize_score.*\n.*:10\n",
            id="missing normalisation",
        ),
        pytest.param(
            ["filter(self, state, pod, node):\n        import time; time.sleep(1)\n"],
            "test_hooks_have_no_side_effects",
            r"result: +calls time.sleep, which blocks the scheduler\n.* fix: wait in a source, .*\n.*:10\n",
            id="a blocking sleep",
        ),
        pytest.param(
            [
                "sign(self, pod):\n        return object()\n",
                "score(self, state, pod, node):\n        return 1\n",
            ],
            "test_cached_answers_stay_valid",
            r"call: +sign of pod .*\n.*answers <object .*\n.* fix: answer values that are equal.*\n.*:10\n",
            id="an unstable signature",
        ),
        pytest.param(
            [
                "filter(self, state, pod, node):\n        return unschedulable('full') if node.pods else None\n",
                "events_to_register(self):\n        return [ClusterEvent('*', ActionType.ALL, never)]\n",
            ],
            "test_no_wake_up_is_lost",
            r"still waits .* the hint of Mine answered Skip .*\n.* fix: .* with a hint that answers QUEUE.*\n.*:14\n",
            id="a hint that never queues",
        ),
    ],
)
def test_contract_finds_it(pytester: pytest.Pytester, hooks: list[str], test: str, told: str) -> None:
    plugin = PLUGIN.replace("import Plugin,", "import ActionType, ClusterEvent, Plugin, QueueingHint, unschedulable,")
    methods = "\n    @hookimpl\n    def ".join(hooks)
    never = "\ndef never(pod, old, new):\n    return QueueingHint.SKIP\n"
    pytester.makepyfile(mine=plugin.format(hook=methods) + never, test_mine=WITH_CONTRACT)
    result = pytester.runpytest_subprocess("-q", "-k", test)
    result.assert_outcomes(failed=1)
    assert re.search(told, result.stdout.str())
