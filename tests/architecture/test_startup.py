"""What is heavy is imported by what needs it, not at start-up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from socket import socket

HEAVY = {"aiohttp", "kubernetes_asyncio", "numpy", "opentelemetry.sdk", "prometheus_client", "pydantic"}

#: What a scheduler needs beside a cluster, and whoever writes and tests a plugin does not.
FOR_A_PROCESS = {"aiohttp", "kubernetes_asyncio", "opentelemetry", "prometheus_client"}

#: What a scheduler of a real cluster does not need until it is asked for something: an explanation, a login by a
#: plugin, traces, an API of its own, another command.
NOT_FOR_RUN = {
    "kframework.capacity.live_fit",
    "kframework.explain.explainer",
    "kframework.fake_api.server",
    "kframework.cli.simulate",
    "kframework.in_memory.cluster",
    "kframework.observe.recording.writer",
    "kframework.simulation.simulation",
    "kframework.testing",
    "kubernetes_asyncio",
    "opentelemetry",
    "prometheus_client",
    "rich",
    "tomllib",
}

#: What a simulation needs neither, beside that.
NOT_FOR_SIMULATE = {
    "aiohttp",
    "kframework.fake_api",
    "kframework.cli.run",
    "kframework.process",
    "kframework.testing",
    "kubernetes_asyncio",
    "opentelemetry",
    "prometheus_client",
    "rich",
}

#: It ends when it begins to follow the cluster: by then all is there that it schedules with.
RUN = """
import asyncio, os, signal
from kframework.cli import main
from kframework.client.kube_cluster import KubeCluster

async def watch(self, kinds, offer, **settings):
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()

KubeCluster.watch = watch
try:
    main("run --master http://127.0.0.1:1 --leader-elect=false --secure-port PORT".split())
except SystemExit as exit:
    assert not exit.code, exit.code
"""

SIMULATE = """
from kframework.cli import main
try:
    main(["simulate", "-f", "CLUSTER"])
except SystemExit as exit:
    assert not exit.code, exit.code
"""

HELP = """
import sys
sys.argv = ["kframework", "--help"]
from kframework.cli import main
try:
    main()
except SystemExit as exit:
    assert not exit.code, exit.code
"""

PLUGIN_AND_TESTS = """
from kframework import Plugin, Status, Code, hookimpl
from kframework.testing import Scenario, check_plugin, check_wake_ups, make_node, make_pod

class OnlyEvens(Plugin):
    name = "OnlyEvens"

    @hookimpl
    def filter(self, state, pod, node):
        return None if int(node.name[-1]) % 2 == 0 else Status(Code.UNSCHEDULABLE, ("node(s) were odd",))

check_plugin(OnlyEvens, examples=1)
check_wake_ups(OnlyEvens, examples=1)
scenario = Scenario(nodes=[make_node("node-1"), make_node("node-2")], pods=[make_pod("pod")], plugins=[OnlyEvens])
assert scenario.run().node_of("pod") == "node-2"
"""


def test_package_imports_no_heavy_module() -> None:
    assert imported_by("import kframework") & (HEAVY | {"opentelemetry", "pydantic"}) == set()


def test_help_imports_no_heavy_module() -> None:
    assert imported_by(HELP) & HEAVY == set()


def test_plugin_tests_import_no_module_of_a_process() -> None:
    assert imported_by(PLUGIN_AND_TESTS) & FOR_A_PROCESS == set()


def test_run_imports_only_modules_it_needs() -> None:
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    imported = imported_by(RUN.replace("PORT", str(port)))
    assert {"kframework.scheduler.scheduler", "aiohttp.web"} <= imported
    assert imported & NOT_FOR_RUN == set()


def test_simulation_imports_no_http_module(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("{apiVersion: v1, kind: Node, metadata: {name: a}}")
    imported = imported_by(SIMULATE.replace("CLUSTER", str(cluster)))
    assert "kframework.simulation.simulation" in imported
    assert imported & NOT_FOR_SIMULATE == set()


def test_fake_api_imports_no_scheduler() -> None:
    imported = imported_by("import kframework.fake_api.http_server, kframework.fake_api.local_cluster")
    assert "kframework.in_memory.cluster" in imported
    assert not any(name.startswith(("kframework.core.cycle", "pydantic")) for name in imported)


def test_fake_api_without_rules_does_not_import_cel() -> None:
    imported = imported_by("import kframework.fake_api.server")
    assert "kframework.fake_api.custom.rules.spec" in imported
    assert not any(name.startswith("kframework.cel") for name in imported)


def test_features_of_learned_scorers_need_no_gymnasium() -> None:
    imported = imported_by("from kframework.gym import Episodes, Features")
    assert "kframework.gym.episode" in imported and "gymnasium" not in imported


def test_heavy_import_is_reported() -> None:
    assert imported_by("import numpy.linalg") & HEAVY == {"numpy"}


def imported_by(code: str) -> set[str]:
    """Name the modules that a fresh interpreter has imported after running the code."""
    report = code + "\nimport sys; print('imported:', *sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return set(run.stderr.splitlines()[-1].removeprefix("imported: ").split())
