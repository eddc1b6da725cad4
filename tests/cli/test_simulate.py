"""`kframework simulate`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Command, Install

NODES = """
apiVersion: v1
kind: NodeList
items:
- metadata: {name: node-a}
  status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}
- metadata: {name: node-b}
  spec: {unschedulable: true}
  status: {capacity: {cpu: "64", memory: 8Gi, pods: "110"}}
"""

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "8"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {schedulingGates: [{name: example.com/wait}], containers: [{name: c, image: i}]}
"""

HUGE = (
    "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. "
    "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
GATED = "Scheduling is blocked due to non-empty scheduling gates"

TABLE = f"""\
NAMESPACE  POD    NODE    STATUS   ATTEMPTS  MESSAGE
shop       web    node-a  Running  1
default    huge   <none>  Pending  1         {HUGE}
default    gated  <none>  Pending  0         {GATED}
"""

SUMMARY = "1 of 3 pods bound, 2 pending; 2 scheduling cycles in 0s of virtual time"

ITEMS = [
    {
        "pod": "shop/web",
        "node": "node-a",
        "message": "",
        "attempts": 1,
        "profile": "default-scheduler",
        "phase": "Running",
        "rejectedBy": [],
        "group": "",
    },
    {
        "pod": "default/huge",
        "node": None,
        "phase": "Pending",
        "message": HUGE,
        "rejectedBy": ["NodeResourcesFit", "NodeUnschedulable"],
        "attempts": 1,
        "profile": "default-scheduler",
        "group": "",
    },
    {
        "pod": "default/gated",
        "node": None,
        "phase": "Pending",
        "message": GATED,
        "rejectedBy": ["SchedulingGates"],
        "attempts": 0,
        "profile": "default-scheduler",
        "group": "",
    },
]

OPTIONS = "apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\n"

WITH_ODD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Odd}]}}}]
"""

ODD = """
from kframework import Plugin, hookimpl

class Odd(Plugin):
    name = "Odd"
    reads = "pods"

    @hookimpl
    def reserve(self, state, pod, node_name):
        raise ValueError("odd")
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A folder with a small cluster."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "1-nodes.yaml").write_text(NODES)
    (folder / "2-pods.yaml").write_text(PODS)
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.yaml"


def test_table_has_a_row_per_pod(run: Command, cluster: Path) -> None:
    result = run("simulate", "-f", cluster)
    assert (result.code, result.out, result.errors) == (0, TABLE, [SUMMARY])


def test_wide_table_shows_the_last_attempt(run: Command, cluster: Path, file: Path) -> None:
    file.write_text(NODES.replace("unschedulable: true", "").replace("node-", "more-"))
    header, web, *_, gated = run("simulate", "-f", cluster, "-f", file, "-o", "wide").out.splitlines()
    assert header.split()[4:] == "ATTEMPTS SCORE FEASIBLE EVALUATED PROFILE REJECTED BY MESSAGE".split()
    score, *counts = web.split()[5:8]
    assert int(score) > 0
    assert counts == ["3", "4"]
    assert web.split()[8:] == ["default-scheduler", "<none>"]
    assert gated.split()[5:10] == ["<none>", "<none>", "<none>", "default-scheduler", "SchedulingGates"]


def test_wide_names_who_rejected_a_pod(run: Command, cluster: Path) -> None:
    _, _, huge, _ = run("simulate", "-f", cluster, "-o", "wide").out.splitlines()
    assert huge.endswith(f"0         2          default-scheduler  NodeResourcesFit,NodeUnschedulable  {HUGE}")


def test_json_yaml_and_names(run: Command, cluster: Path) -> None:
    answer = {"kind": "PodOutcomeList", "apiVersion": "kframework.dev/v1", "items": ITEMS}
    assert json.loads(run("simulate", "-f", cluster, "-o", "json").out) == answer
    assert yaml.safe_load(run("simulate", "-f", cluster, "-o", "yaml").out) == answer
    assert run("simulate", "-f", cluster, "-o", "name").out == "pod/web\npod/huge\npod/gated\n"


def test_cluster_without_pods_is_reported(run: Command, cluster: Path) -> None:
    nodes = cluster / "1-nodes.yaml"
    assert run("simulate", "-f", nodes).out == "NAMESPACE  POD  NODE  STATUS  ATTEMPTS  MESSAGE\n"
    assert json.loads(run("simulate", "-f", nodes, "-o", "json").out)["items"] == []


def test_files_come_one_by_one_from_stdin_and_in_one_list(run: Command, cluster: Path) -> None:
    nodes, pods = cluster / "1-nodes.yaml", cluster / "2-pods.yaml"
    everything = [*yaml.safe_load(NODES)["items"], *yaml.safe_load_all(PODS)]
    for item in everything:
        item.update(apiVersion="v1", kind=item.get("kind", "Node"))
    one_list = json.dumps({"apiVersion": "v1", "kind": "List", "items": everything})
    assert run("simulate", "-f", nodes, "--filename", pods).out == TABLE
    assert run("simulate", "-f", nodes, "-f", "-", stdin=PODS).out == TABLE
    assert run("simulate", "-f", "-", stdin=one_list).out == TABLE


def test_other_kinds_are_passed_over_in_one_line(run: Command, cluster: Path, file: Path) -> None:
    kinds = ["networking.k8s.io/v1, kind: Ingress", "networking.k8s.io/v1, kind: Ingress", "example.com/v1, kind: Toy"]
    file.write_text("\n---\n".join(f"{{apiVersion: {kind}, metadata: {{name: n{n}}}}}" for n, kind in enumerate(kinds)))
    result = run("simulate", "-f", cluster, "-f", file)
    passed_over = "2 Ingress (networking.k8s.io/v1), 1 Toy (example.com/v1)"
    assert (result.code, result.out) == (0, TABLE)
    assert result.errors == [f"notice: ignored, as this scheduler does not read them: {passed_over}", SUMMARY]


def test_configuration_among_the_cluster_files_is_pointed_out(run: Command, cluster: Path, file: Path) -> None:
    file.write_text(WITH_ODD)
    assert (
        "notice: pass a KubeSchedulerConfiguration with --config"
        in run("simulate", "-f", cluster, "-f", file).err.splitlines()
    )


def test_pods_of_another_scheduler_are_named(run: Command, file: Path) -> None:
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p%d}, spec: {schedulerName: mine, containers: [{name: c}]}}"
    file.write_text("\n---\n".join(pod % n for n in range(7)))
    pods = "default/p0, default/p1, default/p2, default/p3, default/p4 and 2 more"
    assert (
        f"notice: no profile has the schedulerName 'mine'; not scheduled: {pods}" in run("simulate", "-f", file).errors
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [b\n", "2: is not YAML: did not find expected ',' or ']'"),
        ("kind: Pod\n", "1: apiVersion is missing"),
        (NODES.replace('"4"', '"-4"'), "6: Node node-a: status.capacity.cpu: '-4' is negative"),
        (
            NODES.replace('"4"', "lots"),
            (
                "6: Node node-a: status.capacity.cpu: 'lots' is not a quantity: write a number and a suffix, like "
                "500m, 2 or 1.5Gi"
            ),
        ),
        (
            PODS.replace("[{name: c, image: i}]", "c"),
            "15: Pod default/gated: spec.containers: expected a list, got a string",
        ),
    ],
)
def test_bad_input_is_one_line(run: Command, file: Path, text: str, message: str) -> None:
    file.write_text(text)
    assert run("simulate", "-f", file) == (1, "", f"error: {file}:{message}\n")


def test_unknown_fields_are_warned_of_and_refused_by_strict(run: Command, cluster: Path, file: Path) -> None:
    file.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: new}\nspce: {}\nstauts: {}\n")
    lines = [
        f'{file}:4: Node new: unknown field "spce"; did you mean "spec"?',
        f'{file}:5: Node new: unknown field "stauts"; did you mean "status"?',
    ]
    warned = run("simulate", "-f", cluster, "-f", file)
    assert (warned.code, warned.errors[:2]) == (0, [f"warning: {line}" for line in lines])
    refused = run("simulate", "-f", cluster, "-f", file, "--strict")
    assert (refused.code, refused.out, refused.errors) == (1, "", [f"error: {line}" for line in lines])


def test_missing_files_are_reported(run: Command, cluster: Path, file: Path) -> None:
    missing = "No such file or directory"
    assert run("simulate", "-f", file) == (1, "", f"error: {file}: cannot be read: {missing}\n")
    assert run("simulate", "-f", cluster, "--config", file) == (1, "", f"error: {file}: cannot be read: {missing}\n")
    trace = file / "trace"
    assert run("simulate", "-f", cluster, "--trace", trace) == (1, "", f"error: {trace}: {missing}\n")
    assert run("simulate", "-f", cluster, "--report", trace) == (1, "", f"error: {trace}: {missing}\n")


def test_devices_come_from_a_file_of_their_own(run: Command, cluster: Path, file: Path) -> None:
    """Doubts come of the nodes that were read, so the file has met the cluster."""
    pattern = "{{driver: d, nodes: {0}, devices: [{{name: g}}]}}".format
    file.write_text(
        f"apiVersion: kframework.dev/v1\nkind: Devices\npatterns:\n- {pattern('node-a')}\n- {pattern('x')}\n"
    )
    result = run("simulate", "-f", cluster, "--devices", file)
    assert (result.code, result.out) == (0, TABLE)
    assert result.errors == [f"warning: {file}:5: patterns[1]: matches no node of the cluster files", SUMMARY]
    result = run("simulate", "-f", cluster, "--devices", file, "--report", file)
    assert result.errors[0] == f"error: Invalid value for '--report': {file} is an input; name another file"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--duration", "90"],
            "Invalid value for '--duration': missing unit in duration \"90\"; write it as 90s or 1h30m",
        ),
        (["--duration", "-5s"], "Invalid value for '--duration': must be greater than zero"),
        (["--config", "-"], "Invalid value for '--config': stdin is already read by -f -"),
    ],
)
def test_wrong_options_are_refused(run: Command, arguments: list[str], message: str) -> None:
    code, out, err = run("simulate", "-f", "-", *arguments)
    assert (code, out, err.splitlines()[0]) == (2, "", f"error: {message}")


def test_configuration_is_used_and_its_warnings_are_passed_on(run: Command, cluster: Path, file: Path) -> None:
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {filter: {disabled: [{name: NodeUnschedulable}]}}, pluginConfig: [{name: Absent}]}]\n"
    )
    result = run("simulate", "-f", cluster, "--config", file, "-o", "json")
    assert json.loads(result.out)["items"][1]["node"] == "node-b"
    assert result.errors[0].startswith(f"warning: {file}:3: profiles[0].pluginConfig: args of Absent have no effect")


def test_cluster_file_is_no_configuration(run: Command, cluster: Path) -> None:
    nodes = cluster / "1-nodes.yaml"
    code, out, err = run("simulate", "-f", cluster, "--config", nodes)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {nodes}:3: kind: couldn't decode as KubeSchedulerConfiguration, got NodeList (v1)")


def test_seed_on_the_command_line_beats_the_one_in_the_file(run: Command, file: Path, tmp_path: Path) -> None:
    node = "{apiVersion: v1, kind: Node, metadata: {name: n%d}, status: {capacity: {cpu: 1, pods: 9}}}"
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}"
    objects = tmp_path / "objects.yaml"
    objects.write_text("\n---\n".join([pod, *(node % n for n in range(20))]))
    file.write_text(OPTIONS + "seed: 3\n")

    def chosen(*arguments: object) -> object:
        (item,) = json.loads(run("simulate", "-f", objects, "-o", "json", *arguments).out)["items"]
        return item["node"]

    by_seed = [chosen("--seed", seed) for seed in range(5)]
    assert len(set(by_seed)) > 1
    assert chosen("--config", file) == by_seed[3]
    assert chosen("--config", file, "--seed", 1) == by_seed[1]


def test_duration_goes_on_for_so_long(run: Command, cluster: Path) -> None:
    (*_, summary) = run("simulate", "-f", cluster, "--duration", "1m30s").errors
    assert summary.endswith(" in 1m30s of virtual time")


@pytest.mark.parametrize("shard", ["nodes", "pods"])
def test_replicas_share_the_cluster(run: Command, cluster: Path, shard: str) -> None:
    options = ("--replicas", "2", "--shard", shard, "--decision-time", "1s", "--watch-delay", "2s")
    result = run("simulate", "-f", cluster, *options)
    assert result.code == 0
    assert result.out.splitlines()[1].split() == "shop web node-a Running 1".split()
    assert "of 3 pods bound" in result.errors[-1]


def test_conflicts_of_replicas_are_counted(run: Command, file: Path) -> None:
    pods = (PODS.partition("---")[0].replace("web", f"web-{number}").replace('"1"', "4") for number in range(20))
    file.write_text("---".join((NODES, *pods)))
    result = run("simulate", "-f", file, "--replicas", "2", "--decision-time", "1ms", "--watch-delay", "1s")
    expected = (
        r"notice: conflicts of replicas: \d+ bindings to nodes that others had filled, 0 pods that others had bound"
    )
    assert re.search(expected, result.err)


@pytest.mark.parametrize("option", ["record", "report", "drain", "evict"])
def test_options_for_one_scheduler_are_refused_with_replicas(run: Command, cluster: Path, option: str) -> None:
    result = run("simulate", "-f", cluster, "--replicas", "2", f"--{option}", "name")
    assert result.code == 2
    assert f"--{option}" in result.err and "is for one scheduler" in result.err


def test_plugin_that_always_fails_is_reported_once(run: Command, cluster: Path, file: Path, install: Install) -> None:
    install("odd_plugins", {"Odd": "Odd"}, ODD)
    file.write_text(WITH_ODD)
    result = run("simulate", "-f", cluster, "--config", file, "-o", "json")
    fault = "plugin 'Odd' (from odd_plugins 1.0), hook reserve: ValueError: odd"
    web, *_ = json.loads(result.out)["items"]
    assert result.code == 0
    assert (web["pod"], web["node"], web["phase"], web["message"]) == ("shop/web", None, "Pending", fault)
    assert web["rejectedBy"] == []
    first, gave_up, _, last = result.errors
    assert first.startswith(f"error: {fault} location=")
    assert gave_up.startswith("warning: gave up on pods that were retried without success: shop/web")
    assert last == f"error: plugin 'Odd', hook reserve: failed {web['attempts'] - 1} more times (-v 4 shows each)"


INTERRUPTED = """
import signal
from kframework import Plugin, hookimpl

class Odd(Plugin):
    name = "Odd"
    interrupts = 1

    @hookimpl
    def pre_filter(self, state, pod, nodes):
        if self.interrupts:
            self.interrupts = 0
            signal.raise_signal(signal.SIGINT)
"""


@pytest.mark.usefixtures("interruptible")
def test_interrupted_simulation_prints_at_most_what_was_decided(
    run: Command, cluster: Path, file: Path, install: Install
) -> None:
    install("odd_plugins", {"Odd": "Odd"}, INTERRUPTED)
    file.write_text(WITH_ODD)
    result = run("simulate", "-f", cluster, "--config", file)
    assert (result.code, "Traceback" in result.err) == (130, False)
    assert "shop" in result.out
    assert run("explain", "web", "-n", "shop", "-f", cluster, "--config", file) == (130, "", "")


STARTING = """
from kframework import Plugin, hookimpl

class Odd(Plugin):
    name = "Odd"

    async def start(self):
        {start}

    @hookimpl
    def permit(self, state, pod, node_name):
        return None
"""


@pytest.mark.parametrize(
    ("start", "fault"),
    [
        ("raise ValueError('no licence')", r"ValueError: no licence \(/.*/odd_plugins.py:8\)"),
        ("import asyncio; await asyncio.Event().wait()", r"timed out after 30 s \(hookTimeouts.start\)"),
    ],
)
def test_plugin_that_cannot_start_is_one_line(
    run: Command, cluster: Path, file: Path, install: Install, start: str, fault: str
) -> None:
    install("odd_plugins", {"Odd": "Odd"}, STARTING.format(start=start))
    file.write_text(WITH_ODD)
    result = run("simulate", "-f", cluster, "--config", file)
    assert (result.code, result.out) == (1, "")
    (line,) = result.errors
    assert re.fullmatch(rf"error: plugin 'Odd' \(from odd_plugins 1.0\), hook start: {fault}", line)


def spans(text: str) -> list[str]:
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"] for line in lines]


def test_report_goes_to_a_file(run: Command, cluster: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    result = run("simulate", "-f", cluster, "--report", report)
    assert (result.code, result.out, result.errors) == (0, TABLE, [SUMMARY])
    page = report.read_text()
    assert page.startswith("<!doctype html>")
    assert f"<title>Simulation of {cluster}</title>" in page
    assert '"default/huge"' in page
    assert re.search(r'"point":"filter","calls":\d', page)


def test_traces_go_to_a_file(run: Command, cluster: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    assert run("simulate", "-f", cluster, "--trace", trace).out == TABLE
    names = spans(trace.read_text())
    assert (names.count("scheduling_cycle"), names.count("binding_cycle")) == (2, 1)


def test_traces_go_to_stderr(run: Command, cluster: Path, file: Path) -> None:
    file.write_text(OPTIONS + "tracing: {exporter: console, samplingRatePerMillion: 1000000}\n")
    by_option = run("simulate", "-f", cluster, "--trace", "-")
    by_configuration = run("simulate", "-f", cluster, "--config", file)
    assert spans(by_option.err) == spans(by_configuration.err) != []
    assert by_option.out == by_configuration.out == TABLE


def test_rate_of_the_configuration_holds_for_a_trace_file(
    run: Command, cluster: Path, file: Path, tmp_path: Path
) -> None:
    file.write_text(OPTIONS + "tracing: {samplingRatePerMillion: 1}\n")
    trace = tmp_path / "trace.jsonl"
    run("simulate", "-f", cluster, "--config", file, "--trace", trace)
    assert trace.read_text() == ""


def test_verbosity_below_zero_is_refused(run: Command, tmp_path: Path) -> None:
    done = run("simulate", "-f", tmp_path / "any.yaml", "-v", "-1")
    assert done.code == 2
    assert "-v" in done.errors[0] and "greater than or equal to 0" in done.errors[0], done.err


WRITES = ODD.replace("reserve(self, state, pod, node_name)", "filter(self, state, pod, node)").replace(
    'raise ValueError("odd")', 'node.labels["seen"] = "yes"'
)


@pytest.mark.parametrize(("options", "found"), [((), False), (("--dev",), True)])
def test_plugin_that_modifies_its_arguments_is_caught_by_dev(
    run: Command, install: Install, cluster: Path, file: Path, options: tuple[str, ...], found: bool
) -> None:
    install("odd", {"Odd": "Odd"}, WRITES)
    file.write_text(WITH_ODD)
    done = run("simulate", "-f", cluster, "--config", file, "--duration", "1s", *options)
    assert ("node node-a: metadata.labels is read-only, and written to in " in done.out) is found
    assert ("odd.py:10; change a copy: dict(...)" in done.out) is found


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: "app:1"}]}
"""


@pytest.mark.parametrize(
    ("names", "code", "printed"),
    [
        ("*", 0, "1 of 1 pod bound"),
        ("*,-deployment", 0, "0 of 0 pods bound"),
        ("*,-deploy", 1, 'error: controllers: unknown controller "deploy"; did you mean "deployment"?'),
    ],
)
def test_controllers_of_workloads_can_be_switched_off(
    run: Command, cluster: Path, names: str, code: int, printed: str
) -> None:
    result = run("simulate", "-f", cluster / "1-nodes.yaml", "-f", "-", "--controllers", names, stdin=DEPLOYMENT)
    assert (result.code, result.errors[-1][: len(printed)]) == (code, printed)


LOAD = """
from kframework import Plugin, hookimpl, unschedulable

class Load(Plugin):
    name = "Load"

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.load = handle.source("load", float, self.fetch, every=60, stale_after=120)

    async def fetch(self):
        raise ConnectionError("no route")

    @hookimpl
    def filter(self, state, pod, node):
        return unschedulable("too busy") if self.load.get(node.name, 0.0) > 0.5 else None
"""


def test_source_that_cannot_be_fetched_has_a_remedy(run: Command, cluster: Path, file: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "load.py"
    plugin.write_text(LOAD)
    options = ("simulate", "-f", cluster, "--plugin", f"{plugin}:Load")
    remedy = "play its values from a file with --source Load/load=FILE"
    notice = f"notice: source Load/load has delivered no values; {remedy}"
    assert run(*options).errors.count(notice) == 1

    file.write_text('{at: 0, error: "no route"}\n')
    assert notice not in run(*options, "--source", f"Load/load={file}").errors


def test_values_of_a_source_are_played_from_a_file(run: Command, cluster: Path, file: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "load.py"
    plugin.write_text(LOAD)
    file.write_text('{at: 0, values: {node-a: 0.9}}\n{"at": 90, "values": {"node-a": 0.1}}\n')
    options = ("simulate", "-f", cluster, "--plugin", f"{plugin}:Load")
    result = run(*options, "--source", f"Load/load={file}")
    assert result.code == 0
    assert result.out.splitlines()[1].split() == ["shop", "web", "node-a", "Running", "2"]
    assert result.errors[-1].endswith(" in 1m30s of virtual time")
    assert run(*options, "--source", f"Load/lode={file}").errors == [
        f"error: {file}: no plugin declares the source Load/lode; declared: Load/load"
    ]
    file.write_text("{at: 0, values: {node-a: 0.9}}\n")
    explained = run("explain", "web", "-n", "shop", *options[1:], "--source", f"Load/load={file}").out
    assert "too busy" in explained
    assert "Load: source load has 1 key" in explained


REFUSED = """
apiVersion: v1
kind: Pod
metadata: {name: odd}
spec: {runtimeClassName: nosuch, containers: [{name: c, image: i}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: odd}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {priorityClassName: nosuch, containers: [{name: c, image: i}]}}
"""


def test_pods_are_placed_without_what_admission_rejects(run: Command, cluster: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(REFUSED)
    result = run("simulate", "-f", cluster, "-f", other)
    assert (result.code, result.out) == (1, TABLE)
    assert [line.split(": ")[:2] for line in result.errors[:2]] == [["error", f"{other}:5"], ["error", f"{other}:12"]]
    strict = run("simulate", "-f", cluster, "-f", other, "--strict")
    assert (strict.code, strict.out, strict.errors) == (1, "", result.errors[:2])


DRAINED = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {nodeName: node-a, containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep}
spec: {minAvailable: %d, selector: {matchLabels: {app: web}}}
"""


def test_a_drain_shows_what_moved_and_what_may_not(run: Command, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(NODES.replace("unschedulable: true", "") + "---" + DRAINED % 0)
    moved = run("simulate", "-f", cluster, "--drain", "node-a")
    assert (moved.code, moved.out) == (0, "NAMESPACE  POD  BEFORE  NOW     MESSAGE\ndefault    web  node-a  node-b\n")
    cluster.write_text(NODES + "---" + DRAINED % 1)
    kept = run("simulate", "-f", cluster, "--evict", "app=web")
    assert "warning: not evicted, as PodDisruptionBudget keep forbids it: default/web" in kept.errors
    assert run("simulate", "-f", cluster, "--evict", "app in (").code == 2
    assert "there is no node 'nope' to drain" in run("simulate", "-f", cluster, "--drain", "nope").errors[0]


@pytest.mark.parametrize(("pods", "code"), [("", 0), ("---" + PODS, 1)])
def test_pending_pods_fail_the_command_on_request(run: Command, tmp_path: Path, pods: str, code: int) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(NODES + pods)
    assert run("simulate", "-f", cluster, "--fail-on-pending").code == code
    assert run("simulate", "-f", cluster).code == 0
