"""No text of a cluster, or of a plugin, controls the reader's terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kframework.cli.process import create_event_printer
from kframework.objects import Event, ObjectReference
from tests.cli.conftest import Command
from tests.testing.conformance.planted import single

#: A link, a colour and a title of a terminal, markup, text from right to left, what nobody sees, a false line.
HOSTILE = (
    "\x1b]8;;evil:\x1b\\[red]here\x1b]8;;\x1b\\ \x9b31m \x1b]0;title\x07 \u202egnp\u202c \u2066\u2069\u200e\u200f"
    "\u200b\u200d\u2060\ufeff\U000e0041 \u2028\u2029\x85 \x00\x7f\b\r\nerror: false\tline"
)

PLUGIN = """
import logging

from kframework import Plugin, Status, Code, hookimpl
from hostile import HOSTILE

log = logging.getLogger(HOSTILE)


class Hostile(Plugin):
    name = "Hostile"

    @hookimpl
    def filter(self, state, pod, node):
        log.warning("a warning: %s", HOSTILE, extra={"field": HOSTILE, HOSTILE: 1})
        if pod.name.startswith("refused"):
            return Status(Code.UNSCHEDULABLE, (HOSTILE,))
        if pod.name.startswith("broken"):
            raise ValueError(HOSTILE)
"""

#: What YAML and log lines are parsed for afterwards stands in these commands; all others are for people alone.
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Hostile}]}}
"""


def hostile(name: str) -> dict[str, object]:
    """Describe a pod or a node with hostile text in every field that Kubernetes does not restrict."""
    metadata = {"name": name + HOSTILE, "uid": name + HOSTILE}
    return metadata | {"labels": {HOSTILE: HOSTILE}, "annotations": {HOSTILE: HOSTILE}}


def pod(name: str, **spec: object) -> dict[str, object]:
    container = {"name": HOSTILE, "image": HOSTILE, "resources": {"requests": {"cpu": "1", "example.com/odd": "0"}}}
    condition = {"type": HOSTILE, "status": "True", "reason": HOSTILE, "message": HOSTILE}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": hostile(name) | {"namespace": "space" + HOSTILE},
        "spec": {"containers": [container], **spec},
        "status": {"conditions": [condition]},
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Write a cluster in which some pods fit, and the others wait for all kinds of reasons."""
    status = {"allocatable": {"cpu": "4", "pods": "9", HOSTILE: "1"}, "images": [{"names": [HOSTILE], "sizeBytes": 1}]}
    taints = [{"key": "a", "value": "held", "effect": "NoSchedule"}]
    objects = [
        {"apiVersion": "v1", "kind": "Node", "metadata": hostile("good"), "status": status},
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": hostile("taint"),
            "spec": {"taints": taints},
            "status": status,
        },
        pod("fits"),
        pod("refused"),
        pod("broken"),
        pod("huge", containers=[{"name": HOSTILE, "resources": {"requests": {"example.com/odd": "9"}}}]),
        pod("gated", schedulingGates=[{"name": "gate"}]),
        pod("elsewhere", schedulerName=HOSTILE),
        pod("picky", nodeSelector={"a": "b"}),
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return file


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "hostile.py").write_text(f"HOSTILE = {HOSTILE!r}\n")
    (tmp_path / "plugin.py").write_text(PLUGIN)
    (tmp_path / "config.yaml").write_text(CONFIG)
    monkeypatch.syspath_prepend(tmp_path)
    return f"{tmp_path}/plugin.py:Hostile"


def hidden(text: str) -> list[str]:
    """List what a terminal obeys or hides, but for the ends of lines."""
    return sorted({each for each in text if not each.isprintable() and each != "\n"})


def harmless(text: str) -> str:
    """Check that a text is one for people; return it."""
    assert not hidden(text)
    assert not [line for line in text.splitlines() if line.startswith("error: false")]
    return text


def commands(cluster: Path, plugin: str, folder: Path) -> Iterator[list[object]]:
    given = ["-f", cluster, "--config", folder / "config.yaml", "--plugin", plugin]
    yield ["simulate", *given, "--record", folder / "run.rec", "--report", folder / "page.html"]
    for options in (["-o", "wide"], ["-o", "name"], ["-v", "4"], ["-v", "10"], ["--trace", "-"]):
        yield ["simulate", *given, *options]
    for form in ([], ["-o", "wide"]):
        for name in ("fits", "refused", "broken", "huge", "gated", "picky", "elsewhere", "none-such"):
            yield ["explain", name + HOSTILE, "-n", "space" + HOSTILE, *given, *form]
    yield ["replay", folder / "run.rec", "--plugin", plugin]
    (folder / "other.yaml").write_text(CONFIG.partition("profiles")[0])
    compared = ["compare", "--plugin", plugin, "--config", folder / "other.yaml"]
    for form in ([], ["-o", "wide"], ["-o", "markdown"]):
        yield [*compared, "--recording", folder / "run.rec", *form]
        yield [*compared, "-f", cluster, "--baseline", folder / "config.yaml", *form]
    yield ["explain", "huge" + HOSTILE, "-n", "space" + HOSTILE, "--recording", folder / "run.rec", "--plugin", plugin]


@pytest.mark.long
def test_text_of_a_cluster_does_not_control_the_terminal(
    run: Command, cluster: Path, plugin: str, tmp_path: Path
) -> None:
    shown = ""
    for command in commands(cluster, plugin, tmp_path):
        result = run(*command)
        shown += harmless(result.out) + harmless(result.err)
    escaped = HOSTILE.encode("unicode_escape").decode()
    for place in ("fits", "space", "good", "0/2 nodes are available: "):
        assert place + escaped in shown or place in shown
    assert escaped in shown
    harmless((tmp_path / "page.html").read_text())


@pytest.mark.slow
def test_json_and_yaml_are_the_same_data(run: Command, cluster: Path, plugin: str, tmp_path: Path) -> None:
    given = ["-f", cluster, "--config", tmp_path / "config.yaml", "--plugin", plugin]
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        out = run("simulate", *given, "-o", form).out
        assert not hidden(out)
        pods = {item["pod"]: item for item in read(out)["items"]}
        assert pods[f"space{HOSTILE}/fits{HOSTILE}"]["node"] == f"good{HOSTILE}"
        assert HOSTILE in pods[f"space{HOSTILE}/refused{HOSTILE}"]["message"]
    out = run("explain", "huge" + HOSTILE, "-n", "space" + HOSTILE, *given, "-o", "json").out
    assert not hidden(out)
    assert json.loads(out)["pod"] == f"space{HOSTILE}/huge{HOSTILE}"


@pytest.mark.slow
def test_log_in_json_stays_json(run: Command, cluster: Path, plugin: str, tmp_path: Path) -> None:
    given = ["-f", cluster, "--config", tmp_path / "config.yaml", "--plugin", plugin]
    err = run("simulate", *given, "-v", "10", "--logging-format", "json").err
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert not hidden(err)
    assert {"name": f"fits{HOSTILE}", "namespace": f"space{HOSTILE}"} in [line.get("pod") for line in lines]
    assert any(line["msg"] == f"a warning: {HOSTILE}" and line["field"] == HOSTILE for line in lines)
    assert any(HOSTILE in line.get("err", "") for line in lines)


def test_text_of_dry_run_events_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    report = create_event_printer()
    regarding = ObjectReference(kind="Pod" + HOSTILE, namespace=HOSTILE, name=HOSTILE)
    report(Event(regarding=regarding, reason=HOSTILE, type=HOSTILE, note=HOSTILE))
    header, line = harmless(capsys.readouterr().out).splitlines()
    assert line.count("error: false") == 6
    assert header.startswith("NAMESPACE")


def test_text_of_recorded_cases_is_escaped(run: Command, tmp_path: Path) -> None:
    case = single()
    case["suite"] = case["id"] = HOSTILE
    case["expect"]["preFilter"]["Hostile" + HOSTILE] = {"code": "Skip"}
    case["expect"]["preFilter"]["NodeResourcesFit"] = {"code": "Unschedulable", "reasons": [HOSTILE]}
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(case))
    for options in ([], ["--show", HOSTILE]):
        result = run("conformance", file, *options)
        assert "error: false" in harmless(result.out) + harmless(result.err)


@pytest.mark.parametrize("text", [CONFIG + "  schedulerName: {0}\n", "apiVersion: {0}\nkind: {0}\n", "{0}: {0}\n"])
def test_text_of_configuration_errors_is_escaped(run: Command, tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text.replace("{0}", json.dumps(HOSTILE)))
    result = run("config", "check", file)
    assert result.code == 1
    assert "error: " in harmless(result.out + result.err)


def test_errors_of_cluster_files(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    broken = pod("broken", containers=[{"name": HOSTILE, "resources": {"requests": {HOSTILE: HOSTILE}}, HOSTILE: 1}])
    file.write_text(json.dumps(broken))
    result = run("simulate", "-f", file, "--strict")
    assert result.code == 1
    assert "error: " in harmless(result.out + result.err)
