"""A class name of the product means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.architecture.sources import ROOT, listed, parse

#: Names of two classes, each with the reason.
SHARED: dict[str, str] = {
    "Job": "the kinds of Kubernetes and of Volcano",
    "JobSpec": "of both kinds",
    "JobStatus": "of both kinds",
    "NodeAffinity": "the API's struct and kube-scheduler's plugin",
    "NodeOrder": "the order of the node tree, and Volcano's plugin",
    "PodGroup": "the kinds of Kubernetes and of Volcano",
    "PodGroupCondition": "of both kinds",
    "PodGroupSpec": "of both kinds",
    "PodGroupStatus": "of both kinds",
    "Preempt": "the answer of a PostFilter plugin, and Volcano's action",
    "Reservation": "a pod assumed on a node, and Volcano's plugin",
    "Workload": "the kind of Kubernetes, and a part of a benchmark of scheduler_perf",
}


def test_class_names_are_unique() -> None:
    problems = [problem for name, problem in shared_names(sources()) if name not in SHARED]
    assert not problems, listed(problems)


def test_exceptions_are_not_stale() -> None:
    assert SHARED.keys() <= {name for name, _ in shared_names(sources())}


def test_shared_name_is_reported() -> None:
    planted = {"a.py": "class Node:\n    class Row: ...", "b.py": "def f():\n    class Row: ..."}
    assert list(shared_names(planted)) == [
        ("Row", "class Row is defined in a.py and b.py; give one of them another name")
    ]


def sources() -> Mapping[str, str]:
    """Read the modules of the product, by path."""
    paths = [path for pattern in ("kframework", "contrib_plugins/*/src") for path in ROOT.glob(f"{pattern}/**/*.py")]
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(paths)}


def shared_names(sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each class that is defined more than once, with a sentence about it."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for path, source in sources.items():
        for node in ast.walk(parse(source)):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(path)
    for name, paths in sorted(files.items()):
        if len(paths) > 1:
            yield name, f"class {name} is defined in {' and '.join(paths)}; give one of them another name"
