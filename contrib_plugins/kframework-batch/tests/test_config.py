"""Scheduler configurations of Volcano, as people have them, and what is said of those that cannot be used."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path

import pytest
from kframework_batch.config import BatchConfiguration, default_configuration, load, parse
from kframework_batch.program import compile_program
from kframework_batch.settings import ProgramSettings

from kframework.engine import Options
from kframework.errors import ConfigError

FULL = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
configurations:
- name: preempt
  arguments:
    enableTopologyAwarePreemption: true
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
    enableJobStarving: "true"
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: no
    enableHierarchy: true
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.resources: nvidia.com/gpu, example.com/foo
      binpack.resources.nvidia.com/gpu: 2
"""


def in_config_map(text: str, key: str = "volcano-scheduler.conf") -> str:
    head = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: volcano-scheduler-configmap\ndata:\n  {key}: |\n"
    return head + textwrap.indent(text, "    ")


def names(configuration: BatchConfiguration) -> list[list[str]]:
    return [[entry.name for entry in tier] for tier in configuration.tiers]


OPTIONS = "---\napiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nseed: 7"


@pytest.mark.parametrize("text", [FULL, in_config_map(FULL), in_config_map(FULL, "volcano-scheduler-ci.conf")])
def test_volcano_file_is_read_unchanged(text: str) -> None:
    read = parse(text)
    assert read.actions == ("enqueue", "allocate", "preempt", "reclaim", "backfill")
    assert names(read) == [["priority", "gang", "conformance"], ["overcommit", "drf", "binpack"]]
    assert [dict(entry.flags) for tier in read.tiers for entry in tier if entry.flags] == [
        {"enablePreemptable": False, "enableJobStarving": True},
        {"enablePreemptable": False, "enableHierarchy": True},
    ]
    assert read.tiers[1][2].arguments.value == {
        "binpack.weight": 10,
        "binpack.resources": "nvidia.com/gpu, example.com/foo",
        "binpack.resources.nvidia.com/gpu": 2,
    }
    assert {name: arguments.value for name, arguments in read.action_arguments.items()} == {
        "preempt": {"enableTopologyAwarePreemption": True}
    }
    assert read.warnings == ()


def test_default_configuration_is_that_of_volcano() -> None:
    default = default_configuration()
    assert default.actions == ("enqueue", "allocate", "backfill")
    assert names(default) == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder"],
    ]
    assert not any(entry.flags or entry.arguments.value for tier in default.tiers for entry in tier)
    assert default.warnings == ()


def test_configuration_is_loaded_from_file_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "volcano-scheduler.conf"
    path.write_text(FULL)
    monkeypatch.setattr("sys.stdin", io.StringIO(FULL))
    assert load(path) == load("-") == parse(FULL)
    with pytest.raises(ConfigError, match=r"missing\.conf: cannot be read: No such file or directory"):
        load(tmp_path / "missing.conf")


@pytest.mark.parametrize(
    "text", ["actions: allocate", "actions: allocate\ntiers:", "actions: allocate\ntiers:\n- plugins:"]
)
def test_missing_sections_are_empty(text: str) -> None:
    assert [plugin for tier in parse(text).tiers for plugin in tier] == []


@pytest.mark.parametrize(
    ("written", "read"),
    [("true", True), ("yes", True), ("y", True), ("'on'", True), ("off", False), ("N", False), ('"False"', False)],
)
def test_booleans_are_parsed_like_in_go(written: str, read: bool) -> None:
    text = f"actions: allocate\ntiers: [{{plugins: [{{name: gang, enableJobOrder: {written}}}]}}]"
    assert parse(text).tiers[0][0].flags == {"enableJobOrder": read}


def test_null_is_the_same_as_missing() -> None:
    text = (
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableJobOrder:\n    arguments: {a: null, b: 1}\n"
    )
    (entry,) = parse(text).tiers[0]
    assert entry.flags == {}
    assert entry.arguments.value == {"b": 1}


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "tier:\nactions: allocate",
            "<config>:1: tier: unknown field \"tier\" is ignored (did you mean 'tiers'?)",
        ),
        (
            "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enabledPreemptable: false",
            (
                '<config>:5: tiers[0].plugins[0].enabledPreemptable: unknown field "enabledPreemptable" is ignored'
                " (did you mean 'enablePreemptable'?)"
            ),
        ),
        (
            "actions: allocate\ntiers:\n- name: first\n  plugins: []",
            '<config>:3: tiers[0].name: unknown field "name" is ignored',
        ),
        (
            "actions: allocate\nmetrics:\n  type: prometheus",
            "<config>:2: metrics: is for Volcano's plugin usage, which is not supported: ignored",
        ),
        (
            "actions: allocate\nconfigurations:\n- name: allocate\n  arguments: {a: 1}\n- name: allocate",
            "<config>:5: configurations[1].name: allocate has arguments already: ignoring these",
        ),
        (
            "actions: allocate\n---\nactions: backfill",
            "<config>:3: a file holds one configuration: ignoring this document",
        ),
        (
            f"actions: allocate\n{OPTIONS}\n{OPTIONS}",
            "<config>:7: a file holds one configuration: ignoring this document",
        ),
    ],
)
def test_ignored_fields_are_warnings(text: str, warning: str) -> None:
    read = parse(text)
    assert read.actions == ("allocate",)
    assert read.warnings == (warning,)


def test_empty_metrics_section_is_no_warning() -> None:
    assert parse("actions: allocate\nmetrics: {}").warnings == ()


def test_first_arguments_of_an_action_are_used() -> None:
    read = parse("actions: allocate\nconfigurations: [{name: allocate, arguments: {a: 1}}, {name: allocate}]")
    assert read.action_arguments["allocate"].value == {"a": 1}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("# nothing", 'f.conf: is empty; want actions ("enqueue, allocate, backfill") and tiers of plugins'),
        ("tiers: []", "f.conf:1: actions: Required value"),
        ("actions: ''", "f.conf:1: actions: Required value"),
        ("actions: [enqueue]", 'f.conf:1: actions: expected a string, got ["enqueue"]'),
        (
            "actions: 'enqueue,, allocate'",
            'f.conf:1: actions: "enqueue,, allocate" lacks a name before or after a comma',
        ),
        ("actions: 'enqueue,'", 'f.conf:1: actions: "enqueue," lacks a name before or after a comma'),
        ("- actions", 'f.conf:1: expected a mapping, got ["actions"]\nf.conf:1: actions: Required value'),
        ("actions: allocate\ntiers:\n  plugins: []", 'f.conf:2: tiers: expected a list, got {"plugins":[]}'),
        ("actions: allocate\ntiers:\n- - name: gang", 'f.conf:3: tiers[0]: expected a mapping, got [{"name":"gang"}]'),
        ("actions: allocate\ntiers:\n- plugins:\n  - gang", "f.conf:4: tiers[0].plugins[0]: expected a mapping"),
        ("actions: allocate\ntiers:\n- plugins:\n  - {}", "f.conf:4: tiers[0].plugins[0].name: Required value"),
        (
            "actions: allocate\ntiers:\n- plugins:\n  - name: 7",
            "f.conf:4: tiers[0].plugins[0].name: expected a string, got 7",
        ),
        (
            "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableJobOrder: 2",
            "f.conf:5: tiers[0].plugins[0].enableJobOrder: expected true or false, got 2",
        ),
        (
            "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    arguments: 3",
            "f.conf:5: tiers[0].plugins[0].arguments: expected a mapping, got 3",
        ),
        ("actions: allocate\nconfigurations:\n- arguments: {}", "f.conf:3: configurations[0].name: Required value"),
        ("actions: ]", "f.conf:1: is not YAML"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration",
            'f.conf:2: kind: "KubeSchedulerConfiguration" is no configuration of a batch scheduler',
        ),
        (
            "kind: ConfigMap\ndata:\n  volcano-schedule.conf: ''\n  other: ''",
            "f.conf:2: data: has no text under \"volcano-scheduler.conf\" (did you mean 'volcano-schedule.conf'?)",
        ),
        ("kind: ConfigMap", 'f.conf:1: data: has no text under "volcano-scheduler.conf"'),
    ],
)
def test_errors_have_their_location(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.conf")
    assert error in str(caught.value)
    assert str(caught.value).startswith(error.partition("\n")[0])


@pytest.mark.parametrize(
    ("tiers", "error"),
    [
        (
            "[[drf+, gang, proportion]]",
            "tiers[0].plugins[0].enableHierarchy: drf with a hierarchy and proportion both compute",
        ),
        ("[[gang], [proportion, drf+]]", "tiers[1].plugins[1].enableHierarchy: drf with a hierarchy and proportion"),
        (
            "[[proportion, capacity]]",
            "tiers[0].plugins[1].name: proportion computes the shares of queues, capacity",
        ),
        ("[[capacity], [proportion]]", "tiers[0].plugins[0].name: proportion computes the shares of queues, capacity"),
        ("[[drf+], [proportion]]", None),
        ("[[drf, proportion]]", None),
        ("[[drf+, capacity]]", None),
    ],
)
def test_conflicting_plugins_are_rejected(tiers: str, error: str | None) -> None:
    lines = ["actions: allocate", "tiers:"]
    for tier in tiers[2:-2].split("], ["):
        lines.append("- plugins:")
        lines += [f"  - {{name: {n.rstrip('+')}, enableHierarchy: {n.endswith('+')}}}" for n in tier.split(", ")]
    if error is None:
        assert parse("\n".join(lines)).warnings == ()
        return
    with pytest.raises(ConfigError) as caught:
        parse("\n".join(lines))
    assert str(caught.value).partition(": ")[2].startswith(error)


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("actions: 3\ntiers:\n- plugins:\n  - {name: gang, enableJobOrder: perhaps}\n  - {}\n", "f.conf")
    assert str(caught.value).splitlines() == [
        "f.conf:1: actions: expected a string, got 3",
        'f.conf:4: tiers[0].plugins[0].enableJobOrder: expected true or false, got "perhaps"',
        "f.conf:5: tiers[0].plugins[1].name: Required value",
    ]


def test_lines_in_a_block_of_a_config_map_are_those_of_the_file() -> None:
    text = in_config_map("# first\nactions: allocate\ntiers:\n- plugins:\n  - {name: gang, enableJobOrder: 3}\n")
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yaml")
    assert str(caught.value) == "f.yaml:11: tiers[0].plugins[0].enableJobOrder: expected true or false, got 3"
    assert text.splitlines()[10].strip().startswith("- {name: gang")


def test_yaml_error_in_a_config_map_has_its_line() -> None:
    with pytest.raises(ConfigError, match=r"^f.yaml:8: is not YAML"):
        parse(in_config_map("actions: allocate\ntiers: ]"), "f.yaml")


def test_lines_in_a_plain_text_of_a_config_map_count_within_the_text() -> None:
    text = 'kind: ConfigMap\ndata:\n  volcano-scheduler.conf: "actions: allocate\\ntiers: 3\\n"\n'
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yaml")
    assert str(caught.value) == "f.yaml: data.volcano-scheduler.conf:2: tiers: expected a list, got 3"


def test_options_are_read_from_a_second_document() -> None:
    read = parse(f"actions: allocate\n{OPTIONS}\ntracing: {{exporter: console, samplingRatePerMillion: 5}}")
    assert (read.options.seed, read.options.tracing.exporter) == (7, "console")
    assert read.options.tracing.sampling_rate_per_million == 5
    assert read.warnings == ()
    assert parse("actions: allocate").options == Options()
    settings = ProgramSettings(compile_program(read), seed=3)
    assert (settings.configuration.options.tracing, settings.configuration.options.seed) == (read.options.tracing, 3)


def test_options_are_read_from_a_config_map() -> None:
    held = f"actions: allocate\n{OPTIONS}".replace("\n", "\n    ")
    read = parse(f"kind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n    {held}\n")
    assert read.options.seed == 7


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("tracing: {exporter: jaeger}", "<config>:6: tracing.exporter: "),
        ("tracing: {samplingRatePerMillion: -1}", "<config>:6: tracing.samplingRatePerMillion: "),
        ("trcing: {}", "<config>:6: "),
    ],
)
def test_errors_in_options_have_their_line(options: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(f"actions: allocate\n{OPTIONS}\n{options}")
    assert str(raised.value).startswith(error)
