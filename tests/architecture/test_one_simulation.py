"""A scheduler is run on a cluster in memory in one place: whatever simulates is a `Simulation` with other parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.architecture.sources import ROOT, listed, parse

#: The one class, and the module that drives its loop.
SIMULATION, LOOP = "kframework.simulation.simulation.Simulation", "kframework.simulation.running"
#: Functions that create a scheduler on a cluster in memory to read its profiles, and never run it.
READERS = ("kframework.cli.config.compile_profiles", "kframework_batch.settings.role_manifests")
#: Modules that name the loop of virtual time for something else: to hand it on, to close a plugin in the contract's
#: checks, and to date log lines.
OTHERS = ("kframework.clock", "kframework.testing.contract.repeatability", "kframework.cli.logs")


def test_one_class_runs_a_scheduler_on_a_cluster_in_memory() -> None:
    classes = {name: node for module, source in sources() for name, node in composers(module, source)}
    assert set(classes) == {SIMULATION, *READERS}, listed(sorted(classes))
    assert not [name for name in READERS if is_run(classes[name])]


def test_one_module_drives_virtual_time() -> None:
    classes = {module for module, source in sources() if drives_virtual_time(source)}
    assert classes == {LOOP, *OTHERS}, listed(sorted(classes))


@pytest.mark.parametrize(
    ("source", "classes"),
    [
        (
            """
            class Second:
                def __init__(self, clock):
                    self.cluster = MemoryCluster(clock)

                async def run(self):
                    await Scheduler(configuration, self.cluster, clock).run()
            """,
            ["module.Second"],
        ),
        (
            """
            async def second(clock):
                await scheduler.Scheduler[Engine](configuration, memory.MemoryCluster(clock, []), clock).run()
            """,
            ["module.second"],
        ),
        ("class Process:\n    def __init__(self): Scheduler(configuration, cluster)", []),
        ("def serve(): ApiServer(MemoryCluster(clock), clock)", []),
        ("class A:\n    cluster: MemoryCluster\n    scheduler: Scheduler", []),
    ],
)
def test_second_simulation_is_reported(source: str, classes: list[str]) -> None:
    created = dict(composers("module", dedent(source)))
    assert list(created) == classes
    assert all(map(is_run, created.values()))


@pytest.mark.parametrize(
    ("source", "classes"),
    [
        ("from kframework.clock import run_virtual\nrun_virtual(main)", True),
        ("import kframework.clock\nkframework.clock.VirtualTimeLoop()", True),
        ("from kframework.clock import LoopClock", False),
    ],
)
def test_second_driver_of_virtual_time_is_reported(source: str, classes: bool) -> None:
    assert drives_virtual_time(source) == classes


def sources() -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the text of each module of the product."""
    for root in (ROOT, *sorted(ROOT.glob("contrib_plugins/*/src"))):
        for path in sorted(root.glob("kframework*/**/*.py")):
            yield dotted(path.relative_to(root)), path.read_text()


def dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def composers(module: str, source: str) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the classes and functions of a module that create both a cluster in memory and a scheduler."""
    if "MemoryCluster(" not in source:
        return
    for node in parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            created = {called(each) for each in ast.walk(node) if isinstance(each, ast.Call)}
            if {"MemoryCluster", "Scheduler"} <= created:
                yield f"{module}.{node.name}", node


def called(call: ast.Call) -> str:
    """Return the last part of what a call names, without its type arguments."""
    function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return ast.unparse(function).rpartition(".")[2]


def is_run(node: ast.stmt) -> bool:
    """Return whether anything is run inside."""
    return any(isinstance(each, ast.Attribute) and each.attr == "run" for each in ast.walk(node))


def drives_virtual_time(source: str) -> bool:
    """Return whether a module imports or uses what runs a loop on virtual time."""
    names = {"VirtualTimeLoop", "run_virtual"}
    return any(name in source for name in names) and any(
        (isinstance(node, ast.alias) and node.name in names) or (isinstance(node, ast.Attribute) and node.attr in names)
        for node in ast.walk(parse(source))
    )
