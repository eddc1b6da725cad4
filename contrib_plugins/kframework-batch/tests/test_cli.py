"""`kframework batch`."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest
import yaml

from kframework.cli import main
from tests.faults.recording_lines import Line, changed, lines_of, nth

EXAMPLE = Path(__file__).parents[1] / "examples" / "training.yaml"
MAIN = "from kframework.cli import main; main()"

#: What Volcano's chart writes into its manifest.
STOCK = """
    --logtostderr --scheduler-conf={config} --enable-healthz=true --enable-metrics=true --leader-elect=false
    --kube-api-qps=2000 --kube-api-burst=2000 --schedule-period=1s --node-worker-threads=20 -v=3 2>&1
"""

CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


class Run(NamedTuple):
    """What a command came to."""

    code: object
    out: str
    err: list[str]


Command = Callable[..., Run]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command line in this process."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object) -> Run:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main(["batch", *map(str, arguments)])
        out, err = capsys.readouterr()
        return Run(exit.value.code, out, err.splitlines())

    return run


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "scheduler.conf"
    file.write_text(CONFIG)
    return file


def test_help_imports_nothing_heavy() -> None:
    code = (
        f"import sys; sys.argv = ['kframework', 'batch', '--help']\ntry:\n    exec({MAIN!r})\nexcept SystemExit: pass\n"
    )
    code += "print('imported:', *sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stderr.rpartition("imported: ")[2].split())
    assert "kframework_batch.cli" in imported
    assert not imported & {"kubernetes_asyncio", "numpy", "opentelemetry.sdk", "prometheus_client"}


def test_simulation_is_printed_like_kframework_simulate(run: Command) -> None:
    code, out, err = run("simulate", "-f", EXAMPLE)
    header, *rows = out.splitlines()
    assert (code, header.split()) == (0, ["NAMESPACE", "POD", "NODE", "STATUS", "ATTEMPTS", "MESSAGE"])
    assert len(rows) == 13
    assert err[-1].startswith("13 of 13 pods bound, 0 pending; ")


def test_kinds_of_sessions_are_reported_where_only_pods_are_scheduled(
    capsys: pytest.CaptureFixture[str], run: Command
) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "-f", str(EXAMPLE)])
    kinds = "2 Queue (scheduling.volcano.sh/v1beta1), 2 Job (batch.volcano.sh/v1alpha1)"
    notice = f"notice: ignored, as no enabled plugin reads them: {kinds}; kframework batch schedules them"
    assert notice in capsys.readouterr().err.splitlines()
    assert notice not in run("simulate", "-f", EXAMPLE).err
    assert notice not in run("compare", "-f", EXAMPLE).err


def test_faulty_template_of_a_job_is_an_error_with_its_line(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    spec = "{template: {spec: {preemptionPolicy: never, containers: [{name: c, image: i}]}}, replicas: 1}"
    file.write_text(
        f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: j}}\nspec:\n  tasks: [{spec}]\n"
    )
    result = run("simulate", "-f", file)
    path = "spec.tasks[0].template.spec.preemptionPolicy"
    (error,) = result.err
    assert (result.code, result.out) == (1, "")
    assert error.startswith(f'error: {file}:5: Job default/j: {path}: Unsupported value: "never": supported values')


def test_old_version_of_a_pod_group_is_reported_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "group.yaml"
    file.write_text("apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: g}\n")

    def notices(*options: str) -> list[str]:
        with pytest.raises(SystemExit):
            main(["simulate", "-f", str(file), *options])
        return [line for line in capsys.readouterr().err.splitlines() if "ignored" in line]

    (without,) = notices()
    assert without.startswith(
        "notice: ignored without the feature gate GenericWorkload of Kubernetes 1.37: 1 PodGroup;"
    )
    (with_gate,) = notices("--feature-gates", "GenericWorkload=true")
    assert with_gate.endswith(
        "1 PodGroup (scheduling.k8s.io/v1alpha2); change the apiVersion to scheduling.k8s.io/v1beta1"
    )


def test_simulation_output_formats(run: Command) -> None:
    answer = json.loads(run("simulate", "-f", EXAMPLE, "-o", "json").out)
    assert yaml.safe_load(run("simulate", "-f", EXAMPLE, "-o", "yaml").out) == answer
    items = answer["items"]
    names = run("simulate", "-f", EXAMPLE, "-o", "name").out.splitlines()
    assert names == [f"pod/{item['pod'].partition('/')[2]}" for item in items]
    header = run("simulate", "-f", EXAMPLE, "-o", "wide").out.splitlines()[0]
    assert header.split()[4:] == "ATTEMPTS SCORE FEASIBLE EVALUATED PROFILE REJECTED BY MESSAGE".split()


def test_second_gang_waits_as_a_whole_while_the_first_runs(run: Command) -> None:
    items = json.loads(run("simulate", "-f", EXAMPLE, "--duration", "1m", "-o", "json").out)["items"]
    waiting = {item["pod"].partition("/")[2].split("-")[0] for item in items if item["node"] is None}
    assert waiting == {"resnet"}


def test_volcano_configuration_is_used(run: Command, config: Path, tmp_path: Path) -> None:
    assert run("simulate", "-f", EXAMPLE, "--scheduler-conf", config).err[-1].startswith("13 of 13 pods bound")
    config.write_text(CONFIG.replace("allocate", "alocate"))
    code, out, err = run("simulate", "-f", EXAMPLE, "--config", config)
    assert (code, out) == (1, "")
    assert err[0].startswith(f"error: {config}:2: actions: unknown action 'alocate'")


def test_trace_and_seed_options(run: Command, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    first = run("simulate", "-f", EXAMPLE, "--seed", 3, "--trace", trace)
    text = trace.read_text()
    assert '"scheduling_cycle"' in text and '"name":"session"' in text and '"name":"turn"' in text
    assert run("simulate", "-f", EXAMPLE, "--seed", 3).out == first.out


def test_shares_option_draws_queue_shares(run: Command, tmp_path: Path) -> None:
    picture = tmp_path / "shares.svg"
    assert run("simulate", "-f", EXAMPLE, "--shares", picture).code == 0
    assert picture.read_text() == (EXAMPLE.parents[1] / "shares.svg").read_text()
    assert run("simulate", "-f", EXAMPLE, "--shares", EXAMPLE).err[0].endswith("is an input; name another file")


def test_report_option_writes_a_page(run: Command, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert run("simulate", "-f", EXAMPLE, "--duration", "1m", "--report", page).code == 0
    html = page.read_text()
    assert f"<title>Simulation of {EXAMPLE}</title>" in html
    (found,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', html)
    data = json.loads(found)
    assert [section["name"] for section in data["sections"]] == ["queues", "jobs", "sessions"]
    assert data["queues"]["counts"] == {"queue vision": 8, "binding": 0}
    assert data["details"]["session"].keys() == {"1", "2", "3"}
    assert "default/resnet-worker-3" in data["details"]["pod"]
    assert data["start"] == data["sections"][2]["rows"][-1]["cells"][1]
    assert run("simulate", "-f", EXAMPLE, "--report", EXAMPLE).err[0].endswith("is an input; name another file")


def test_jobs_without_pods_are_reported(run: Command, tmp_path: Path) -> None:
    lost = tmp_path / "lost.yaml"
    lost.write_text(EXAMPLE.read_text().replace("queue: vision", "queue: vison"))
    code, _, err = run("simulate", "-f", lost)
    assert (code, err[0]) == (0, "notice: job default/resnet waits without pods: there is no queue 'vison'")


def test_pods_of_other_schedulers_are_reported(run: Command) -> None:
    *_, last, _ = run("simulate", "-f", EXAMPLE, "--scheduler-name", "mine").err
    names = "default/notebook, default/resnet-master-0"
    assert last.startswith(f"notice: no profile has the schedulerName 'volcano'; not scheduled: {names}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-f", "-", "--config", "-"], "Invalid value for '--config': stdin is already read by -f -"),
        (
            ["-f", "-", "--period", "0s"],
            "Invalid value for '--schedule-period' / '--period': must be greater than zero",
        ),
        ([], "Missing option '-f' / '--filename'."),
    ],
)
def test_usage_error_is_one_line(run: Command, arguments: list[str], message: str) -> None:
    code, out, err = run("simulate", *arguments)
    assert (code, out, err[0]) == (2, "", f"error: {message}")
    assert err[1] == "See 'kframework batch simulate --help' for usage."


def replayed(capsys: pytest.CaptureFixture[str], *arguments: object, command: str = "replay") -> Run:
    """Run `kframework replay`, or another command."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit:
        main([command, *map(str, arguments)])
    out, err = capsys.readouterr()
    return Run(exit.value.code, out, err.splitlines())


def test_recording_is_replayed(run: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "run.rec"
    plain = run("simulate", "-f", EXAMPLE)
    assert run("simulate", "-f", EXAMPLE, "--record", file).out == plain.out
    code, out, err = replayed(capsys, file)
    assert (code, out) == (0, "")
    told = Counter(line["what"] for line in lines_of(file)[1:])
    sessions = told["SessionAccount"]
    summary = (
        f"{told['Decision']} attempts and {sessions} sessions replayed with the recorded configuration: all the same"
    )
    assert err == [summary] and sessions > 1
    assert json.loads(replayed(capsys, file, "-o", "json").out)["compared"]["session"] == sessions


def test_differing_session_is_reported(run: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "run.rec"
    run("simulate", "-f", EXAMPLE, "--record", file)

    def heavier(lines: list[Line]) -> None:
        lines[nth(lines, "SessionAccount", 0)]["with"]["queues"][0]["weight"] = 9

    code, out, err = replayed(capsys, changed(file, tmp_path / "changed", heavier), "-o", "json")
    assert code == 1 and "session 1 got queues[0].weight " in err[0]
    assert err[-1].endswith("replayed with the recorded configuration: 1 different (1 queues)")
    (difference,) = json.loads(out)["differences"]
    assert (difference["account"], difference["difference"]) == ("session 1", "queues")
    assert difference["recorded"]["queues"][0]["weight"] == 9


def test_recording_is_reconsidered_with_another_configuration(
    run: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, other = tmp_path / "run.rec", tmp_path / "other.conf"
    other.write_text("actions: allocate\ntiers: [{plugins: [{name: predicates}]}]\n")
    run("simulate", "-f", EXAMPLE, "--record", file)
    compared = ("--recording", file, "--config", other)
    code, out, err = replayed(capsys, *compared, command="compare")
    assert code == 0
    assert ("2-3", "default/resnet", "discarded", "4", "bound", "served", "now") in [
        tuple(line.split()[:7]) for line in out.splitlines()
    ]
    assert "sessions replayed with " in err[-1] and "2 served now" in err[-1]
    assert json.loads(replayed(capsys, *compared, "-o", "json", command="compare").out)["differences"][0]["podGroup"]


@pytest.mark.parametrize("option", ["--report", "--plugin"])
def test_pod_engine_options_are_rejected_for_batch_recordings(
    run: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str
) -> None:
    file, other = tmp_path / "run.rec", tmp_path / "other.py"
    other.touch()
    run("simulate", "-f", EXAMPLE, "--record", file)
    code, _, err = replayed(capsys, file, option, other if option != "--report" else tmp_path / "page.html")
    assert code == 2
    assert f"'{option}': only for recordings of the pod engine; this one is of the engine 'batch'" in " ".join(err)


def test_record_limit_requires_record(run: Command) -> None:
    assert "only with --record" in " ".join(run("simulate", "-f", EXAMPLE, "--record-limit", "64Mi").err)


@pytest.mark.slow
def test_running_scheduler_is_recorded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "run.rec"
    arguments = ["run", "--embedded", "-f", EXAMPLE, "--secure-port", 0, "--record", file]
    with started(*arguments) as process:
        until_bound(process, "bert-worker-0")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    code, _, err = replayed(capsys, file)
    assert code == 0 and err[-1].endswith("sessions replayed with the recorded configuration: all the same")


@pytest.mark.slow
def test_running_scheduler_traces_as_configured_in_options(config: Path) -> None:
    options = "apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\ntracing: {exporter: console, %s}"
    config.write_text(f"{CONFIG}---\n{options % 'samplingRatePerMillion: 1000000'}")
    arguments = ["run", "--embedded", "-f", EXAMPLE, "--secure-port", 0, "--config", config]
    with started(*arguments) as process, ThreadPoolExecutor() as reading:
        assert process.stderr is not None
        told = reading.submit(process.stderr.read)  # more than a pipe holds
        until_bound(process, "bert-worker-0")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        err = told.result()
    spans = [json.loads(line)["resourceSpans"][0] for line in err.splitlines() if line.startswith("{")]
    names = {span["scopeSpans"][0]["spans"][0]["name"] for span in spans}
    assert {"session", "action", "turn", "scheduling_attempt", "binding_cycle"} <= names


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start a command, and kill it in the end if it still runs."""
    command = [sys.executable, "-c", MAIN, "batch", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def until_bound(process: subprocess.Popen[str], name: str) -> str:
    """Watch a pod of the API that a command brings along until it is bound; return its node."""
    assert process.stdout is not None
    _, assignment = shlex.split(process.stdout.readline())
    kubeconfig = yaml.safe_load(Path(assignment.partition("=")[2]).read_text())
    server = kubeconfig["clusters"][0]["cluster"]["server"]
    url = f"{server}/api/v1/namespaces/default/pods?watch=true&fieldSelector=metadata.name={name}"
    with urlopen(url, timeout=30) as lines:
        nodes = (json.loads(line)["object"]["spec"].get("nodeName") for line in lines)
        return str(next(node for node in nodes if node))


@pytest.mark.slow
def test_embedded_scheduler_creates_and_schedules_pods_of_jobs(config: Path) -> None:
    stock = STOCK.format(config=config).split()
    with started("run", "--embedded", "-f", EXAMPLE, "--secure-port", 0, *stock) as process:
        assert until_bound(process, "bert-worker-0").startswith("gpu-")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    names = "--logtostderr, --enable-healthz, --enable-metrics, --node-worker-threads, 2>&1"
    assert err.splitlines()[0] == f"notice: flags of Volcano's scheduler ignored here: {names}"


@pytest.mark.slow
def test_jobs_are_not_reconciled_without_controllers() -> None:
    with started("run", "--embedded", "-f", EXAMPLE, "--no-controllers", "--secure-port", 0) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "notice: synced with the cluster (nodes: 4, pods: 1)\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "notice: Requested to terminate, exiting\n")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (
            ["-f", "x"],
            2,
            (
                "error: Invalid value for '--filename', '--devices', '--port', '--write-kubeconfig': "
                "only with --embedded"
            ),
        ),
        (["--kubeconfig", "none-such"], 1, "error: none-such: no such file; name a kubeconfig"),
        (["--scheduler-conf", "none-such"], 1, "error: none-such: cannot be read: No such file or directory"),
        (["stray"], 2, "error: Got unexpected extra argument(s) (stray)"),
    ],
)
def test_startup_error_is_one_line(run: Command, arguments: list[str], code: int, line: str) -> None:
    result = run("run", *arguments)
    assert (result.code, result.out) == (code, "")
    assert result.err[0].startswith(line)


def rules(objects: list[Any]) -> list[tuple[str, tuple[str, ...]]]:
    """List resources and verbs of what is granted everywhere."""
    return [(name, tuple(rule["verbs"])) for rule in objects[0]["rules"] for name in rule["resources"]]


def test_lease_is_in_a_namespace_of_every_cluster_with_our_controllers(run: Command) -> None:
    for options, namespace in ([], "volcano-system"), (["--controllers"], "kube-system"):
        printed = yaml.safe_load_all(run("rbac", *options).out)
        assert [each["metadata"]["namespace"] for each in printed if each["kind"] == "Role"] == [namespace]


def test_rbac_prints_manifests_for_kubectl(run: Command, config: Path) -> None:
    code, out, err = run("rbac", "--config", config)
    printed = list(yaml.safe_load_all(out))
    assert (code, err) == (0, [])
    assert json.loads(run("rbac", "--config", config, "-o", "json").out)["items"] == printed
    assert [(each["kind"], each["metadata"].get("namespace")) for each in printed] == [
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "volcano-system"),
        ("RoleBinding", "volcano-system"),
    ]
    assert {each["metadata"]["name"] for each in printed} == {"kframework-batch"}
    assert printed[1]["subjects"] == [
        {"kind": "ServiceAccount", "name": "kframework-batch", "namespace": "volcano-system"}
    ]
    assert printed[2]["rules"][-1]["resourceNames"] == ["volcano"]
    assert {("queues", ("list", "watch")), ("queues/status", ("patch",))} <= set(rules(printed))


def test_rbac_with_controllers_grants_more(run: Command) -> None:
    without, with_them = (
        list(yaml.safe_load_all(run("rbac", *arguments).out)) for arguments in ([], ["--controllers"])
    )
    assert "jobs" not in dict(rules(without))
    assert dict(rules(with_them))["jobs"] == ("list", "watch", "delete")


def test_rbac_names_the_lease_of_run(run: Command) -> None:
    names = run("rbac", "--scheduler-name", "a", "--scheduler-name", "b", "--lock-object-namespace", "there").out
    _, _, role, _ = yaml.safe_load_all(names)
    assert (role["metadata"]["namespace"], role["rules"][-1]["resourceNames"]) == ("there", ["a-b"])
    alone = run("rbac", "--no-leader-elect", "-n", "here", "--name", "mine").out
    _, binding = yaml.safe_load_all(alone)
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "mine", "namespace": "here"}]
