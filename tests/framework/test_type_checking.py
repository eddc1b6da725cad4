"""Type checkers hold plugins against the contract: what they must say, and what they must not.

They read kframework, and that is what takes long: so all that they are to read is put before them at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kframework.cli.new.command import ALL_POINTS, FILTER_AND_SCORE, Names, render_package
from tests.docs.examples import write_examples
from tests.support.type_checkers import CheckerError, mypy, pyright

pytestmark = pytest.mark.slow

#: A plugin as an author may write it; a checker must complain of the lines that say so, and of no other.
MODULE = """
from collections.abc import Awaitable, Generator, Iterator, Sequence

from kframework import (
    ActionType, ClearNomination, ClusterEvent, CycleState, Diagnosis, EventResource, Handle, NodeInfo, NodeTable,
    Nominate, PendingPod, Plugin, PluginArgs, PodInfo, Preempt, QueuedPod, Rows, Scores, Skip, Status,
    Suggestion, Wait, hookimpl, hookwrapper, set_label, unschedulable,
)
from kframework.framework.hookspecs import FilterPlugin, ScorePlugin


class RackArgs(PluginArgs):
    most: int = 4


class Rack(Plugin[RackArgs]):
    name = "Rack"
    reads = "pods"

    def __init__(self, args: RackArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.twice = 2 * args.most

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        return None

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> tuple[int, str]:
        return -queued.pod.priority, queued.pod.name

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [ClusterEvent(EventResource.NODE, ActionType.ADD)]

    @hookimpl
    def sign(self, pod: PendingPod) -> str:
        return pod.name

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> set[str] | Status | None:
        return Skip if not pod.labels else {"a"}

    @hookimpl
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
        return None

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("full") if len(node.pods) >= self.args.most else None

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return nodes.requested("pods")[rows] * 0

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return unschedulable("full")

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: object, status: Status) -> Iterator[Suggestion]:
        if isinstance(node, NodeInfo):
            yield set_label(node.name, "rack", "a")

    @hookimpl
    def post_filter(
        self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis
    ) -> Preempt | Nominate | ClearNomination | Status | None:
        return None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return self.args.most

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> int:
        return 0

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Wait:
        return Wait(5)

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return None

    @hookimpl
    def bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Awaitable[Status | None]:
        return self.pre_bind(state, pod, node_name)

    @hookimpl
    async def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None: ...


class Wrapping(Plugin):
    @hookwrapper
    def pre_score(
        self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows
    ) -> Generator[None, set[str], set[str]]:
        return (yield) | {"Rack"}

    @hookwrapper
    def permit(self, state: CycleState, pod: PendingPod) -> Generator[None, Status, Status]:  # complaint
        return (yield)


class Old(Plugin):
    Args = RackArgs


def used(handle: Handle, rack: Rack, old: Old) -> int:
    classes: list[type[Plugin]] = [Rack, Wrapping, Old]
    rack.args.mots  # complaint
    Rack(RackArgs(), handle)
    Rack(PluginArgs(), handle)  # complaint
    Wrapping(PluginArgs(), handle)
    old.args.most  # complaint
    return rack.args.most + rack.twice + len(classes)


class NoStatus(Plugin):
    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> bool:  # complaint
        return True

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: str) -> int:  # complaint
        return len(node)

    @hookimpl
    def sign(self, pod: PendingPod) -> list[str]:  # complaint
        return []

    @hookimpl
    def events_to_register(self) -> list[str]:  # complaint
        return []

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> list[bool]:  # complaint
        return []

    @hookimpl
    async def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> None:  # complaint
        return None


class Misspelt(Plugin):
    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod) -> Status | None:  # complaint
        return None

    @hookimpl
    def pre_filtr(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:  # complaint
        return None


class JustFilter:
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return None


class DeclaredFilter(FilterPlugin):
    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return None


filters: list[FilterPlugin] = [JustFilter(), DeclaredFilter()]
scores: list[ScorePlugin] = [JustFilter()]  # complaint
"""

#: The same without types, checked as a project does that has none: what cannot be a hook is still wrong.
UNTYPED = """
from kframework import Plugin, PluginArgs, hookimpl, unschedulable


class RackArgs(PluginArgs):
    most: int = 4


class Rack(Plugin[RackArgs]):
    name = "Rack"

    @hookimpl
    def filter(self, state, pod, node):
        return unschedulable("full") if len(node.pods) >= self.args.most else None

    @hookimpl
    async def pre_bind(self, state, pod, node_name):
        return None
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What authors have: these modules, the examples of the documents, and new packages of every kind."""
    folder = tmp_path_factory.mktemp("authors")
    files = {"typed.py": MODULE, "untyped.py": UNTYPED}
    for name, example in {"two-points": FILTER_AND_SCORE, "every-point": ALL_POINTS}.items():
        files |= render_package(Names(name), example)
    assert write_examples(folder).isdisjoint(files)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.timeout(180)
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_checkers_complain_of_what_breaks_the_contract_and_of_nothing_else(
    checker: Callable[[Path], list[CheckerError]], folder: Path
) -> None:
    said = {
        f"{file}:{line}": text
        for file, line, text in checker(folder)
        if file != "untyped.py" or "missing a type annotation" not in text
    }
    wrong = {f"typed.py:{n}" for n, line in enumerate(MODULE.splitlines(), 1) if re.search("# complaint$", line)}
    assert said.keys() == wrong, said
