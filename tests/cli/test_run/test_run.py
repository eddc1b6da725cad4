"""`kframework run`."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import anyio
import pytest
import yaml

from kframework.cli.run import handle_early_signals
from kframework.verbosity import NOTICE
from tests.cli.conftest import Command
from tests.cli.processes import exported, fake_api, server_of, started, until_bound

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 7, kubeconfig: %s}
leaderElection: {leaderElect: false, resourceName: mine}
"""

#: What kubeadm writes into the manifest of a static pod.
STOCK = [
    "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--bind-address=127.0.0.1",
    "--kubeconfig=/etc/kubernetes/scheduler.conf",
    "--leader-elect=true",
]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as if nothing in the environment led to a cluster."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG % (tmp_path / "none-such"))
    return file


def effective(run: Command, folder: Path, *arguments: object) -> tuple[list[dict[str, object]], list[str]]:
    """Write the effective configuration; return its documents, and the notices."""
    written = folder / "written.yaml"
    result = run("run", "--write-config-to", written, *arguments)
    assert (result.code, result.out) == (0, "")
    *notices, last = result.errors
    assert last == f"notice: wrote the effective configuration to {written}"
    return list(yaml.safe_load_all(written.read_text())), notices


def test_flags_go_before_the_file(run: Command, config: Path, tmp_path: Path) -> None:
    flags = ["--leader-elect", "--leader-elect-lease-duration=1m", "--pod-max-in-unschedulable-pods-duration", "30s"]
    (document, options), notices = effective(run, tmp_path, "--config", config, *flags)
    election = document["leaderElection"]
    assert isinstance(election, dict)
    assert (election["leaderElect"], election["leaseDuration"], election["resourceName"]) == (True, "1m0s", "mine")
    assert options["podMaxInUnschedulablePodsDuration"] == "30s"
    assert notices == []


def test_stock_command_line_works_unchanged(run: Command, tmp_path: Path) -> None:
    (document, _), notices = effective(run, tmp_path, *STOCK, "-v=2", "--profiling=false")
    assert isinstance(document["leaderElection"], dict) and document["leaderElection"]["leaderElect"] is True
    names = "--profiling"
    assert notices == [f"notice: flags of kube-scheduler ignored here: {names}"]


def test_speed_of_the_client_is_a_flag_only_without_a_file(run: Command, config: Path, tmp_path: Path) -> None:
    flags = ["--kube-api-qps", "3", "--kube-api-burst", "4"]
    (document, _), notices = effective(run, tmp_path, *flags)
    assert isinstance(document["clientConnection"], dict)
    assert (document["clientConnection"]["qps"], document["clientConnection"]["burst"]) == (3.0, 4)
    assert notices == []
    (document, _), notices = effective(run, tmp_path, "--config", config, *flags)
    assert isinstance(document["clientConnection"], dict)
    assert (document["clientConnection"]["qps"], document["clientConnection"]["burst"]) == (7.0, 100)
    assert notices == ["notice: --kube-api-qps and --kube-api-burst are ignored: the --config has clientConnection"]


def test_configuration_that_cannot_run_is_not_written(run: Command, tmp_path: Path) -> None:
    file, written = tmp_path / "config.yaml", tmp_path / "written.yaml"
    file.write_text(CONFIG % "''" + "profiles: [{plugins: {multiPoint: {enabled: [{name: Unheard}]}}}]\n")
    result = run("run", "--config", file, "--write-config-to", written)
    assert (result.code, result.out, written.exists()) == (1, "", False)
    assert "Unheard" in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["--leader-elect=maybe"], 2, "error: Option '--leader-elect' does not take a value."),
        (
            ["--leader-elect-lease-duration", "9"],
            2,
            "error: Invalid value for '--leader-elect-lease-duration': ",
        ),
        (["--leader-elect-lease-duration", "9s"], 1, 'error: leaderElection.leaseDuration: Invalid value: "10s": must'),
        (["--secure-port", "70000"], 2, "error: Invalid value for '--secure-port': must be"),
        (["--kubecfg", "x"], 2, "error: No such option: --kubecfg"),
        (["stray"], 2, "error: Got unexpected extra argument(s) (stray)"),
        (
            ["--master", "elsewhere"],
            1,
            "error: the API server's address 'elsewhere' is not a URL; write it as https://",
        ),
        (["--kubeconfig", "none-such"], 1, "error: none-such: no such file; name a kubeconfig"),
    ],
)
def test_wrong_usage_is_one_line(run: Command, arguments: list[str], code: int, line: str) -> None:
    result = run("run", *arguments)
    assert (result.code, result.out) == (code, "")
    assert result.errors[0].startswith(line)


def test_configuration_may_name_the_kubeconfig(run: Command, config: Path, tmp_path: Path) -> None:
    named = (
        f"{config}:4: clientConnection.kubeconfig: there is no file {tmp_path / 'none-such'};"
        " name another here, or with --kubeconfig, which takes precedence (KUBECONFIG does not)"
    )
    assert run("run", "--config", config) == (1, "", f"error: {named}\n")
    missing = "no such file; name a kubeconfig with --kubeconfig or KUBECONFIG"
    assert run("run", "--config", config, "--kubeconfig", "other") == (1, "", f"error: other: {missing}\n")


def test_kubeconfig_of_the_configuration_that_is_there_is_read(run: Command, config: Path, tmp_path: Path) -> None:
    (tmp_path / "none-such").write_text("{}")
    assert run("run", "--config", config).errors == [
        f"error: {tmp_path / 'none-such'}: has no current-context; name one with --context (it has none)"
    ]


CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, resources: {requests: {cpu: "8"}}}]}
"""

HUGE = (
    "0/1 nodes are available: 1 Insufficient cpu. "
    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.\n"
)
WAITING = "notice: waiting for the lease kube-system/kube-scheduler"
IN_STEP = "notice: synced with the cluster (nodes: 1, pods: 2)"
EXITING = "notice: Requested to terminate, exiting"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_schedules_a_cluster_and_ends_cleanly(cluster: Path, number: signal.Signals) -> None:
    with fake_api("-f", cluster) as (_, kubeconfig):
        with started("run", "--kubeconfig", kubeconfig, "--secure-port", 0) as scheduler:
            assert until_bound(kubeconfig, "web") == "node-a"
            code, out, err = scheduler.end(number)
        assert (code, out) == (0, [])
        # On a busy machine an attempt may take long, which is said too.
        leading, target, in_step, waiting = sorted(line for line in err[:-1] if "took long" not in line)
        name = "kframework-fake-api"
        assert err[0] == target
        assert target.endswith(f"(context {name}, user {name}, kubeconfig {kubeconfig})")
        assert (in_step, waiting, err[-1]) == (IN_STEP, WAITING, EXITING)
        assert leading.startswith("notice: leading as ")


def test_signal_that_comes_too_early_ends_it_in_good_order_too(caplog: pytest.LogCaptureFixture) -> None:
    """The signal comes while the configuration is read: nothing else obeys it then."""
    before = signal.getsignal(signal.SIGTERM)
    with caplog.at_level(NOTICE), pytest.raises(SystemExit) as ended, handle_early_signals():
        os.kill(os.getpid(), signal.SIGTERM)
    assert (ended.value.code, caplog.messages) == (0, ["Requested to terminate, exiting"])
    assert signal.getsignal(signal.SIGTERM) == before


def test_signal_that_comes_too_early_ends_tasks_too() -> None:
    async def main() -> None:
        async with anyio.create_task_group():
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)

    with pytest.raises(SystemExit), handle_early_signals():
        asyncio.run(main())
    with pytest.raises(ExceptionGroup), handle_early_signals():
        raise ExceptionGroup("others", [ValueError("no")])


@pytest.mark.slow
def test_server_may_be_named_by_its_address_alone(cluster: Path) -> None:
    with fake_api("-f", cluster) as (_, kubeconfig):
        address = server_of(kubeconfig)
        with started("run", "--master", address, "--no-leader-elect", "--secure-port", 0) as scheduler:
            assert until_bound(kubeconfig, "web") == "node-a"
            target = f"notice: scheduling the pods of default-scheduler on {address}"
            assert scheduler.end() == (0, [], [target, IN_STEP, EXITING])


@pytest.mark.slow
def test_embedded_it_brings_its_own_cluster(cluster: Path) -> None:
    with started("run", "--embedded", "-f", cluster, "--secure-port", 0) as scheduler:
        assert until_bound(exported(scheduler), "web") == "node-a"
        assert scheduler.end() == (0, [], [IN_STEP, EXITING])


@pytest.mark.slow
def test_dry_run_reports_what_would_be_done(cluster: Path) -> None:
    with fake_api("-f", cluster) as (_, kubeconfig):
        with started("run", "--dry-run", "--kubeconfig", kubeconfig, "--secure-port", 0) as scheduler:
            header, *lines = (scheduler.out.readline() for _ in range(3))
            code, out, (target, *err) = scheduler.end()
            assert (code, out, err) == (0, [], [IN_STEP, EXITING])
            assert target.startswith("notice: dry run for default-scheduler: nothing is written to http://127.0.0.1:")
    assert header.split() == ["NAMESPACE", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert sorted(line.split(maxsplit=4) for line in lines) == [
        ["default", "Normal", "Scheduled", "pod/web", "Successfully assigned default/web to node-a\n"],
        ["default", "Warning", "FailedScheduling", "pod/huge", HUGE],
    ]


def test_port_that_is_taken_is_reported_before_anything_is_printed(cluster: Path, run: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("run", "--embedded", "--secure-port", port)
    remedy = "choose another --bind-address or --secure-port, or --secure-port 0 for no endpoints"
    assert (result.code, result.out) == (1, "")
    assert result.errors == [f"error: cannot listen on 127.0.0.1:{port}: address already in use; {remedy}"]


def test_options_of_the_embedded_api_require_it(run: Command, cluster: Path) -> None:
    together = "'--filename', '--devices', '--port', '--write-kubeconfig'"
    for arguments, said in (
        (["-f", cluster], together),
        (["--devices", "file"], together),
        (["--port", 1], together),
        (["--write-kubeconfig", "file"], together),
        (["--controllers", ""], "'--controllers'"),
    ):
        result = run("run", *arguments)
        assert (result.code, result.out) == (2, "")
        assert result.errors[0].startswith(f"error: Invalid value for {said}: only with --embedded")


@pytest.mark.parametrize("option", ["--kubeconfig", "--context", "--master"])
def test_options_of_a_cluster_are_refused_with_embedded(run: Command, option: str) -> None:
    result = run("run", "--embedded", option, "production", "--secure-port", 0)
    together = "'--kubeconfig', '--context', '--master'"
    assert (result.code, result.out) == (2, "")
    assert result.errors[0] == f"error: Invalid value for {together}: not with --embedded"
