"""Plugins of batch sessions that give scripted answers, and rules about sessions, each written down as a row."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kframework_batch.hookspecs import SPECIFICATIONS
from kframework_batch.job import TaskInfo
from kframework_batch.objects import Queue
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.session import Session
from kframework_batch.testing import Gang, Stage, make_node

from kframework.objects import Node
from kframework.values.status import unschedulable

_SPECIFIED: dict[str, Callable[..., object]] = {
    hook: member for protocol in SPECIFICATIONS for hook, member in vars(protocol).items()
}

Voice = type[BatchPlugin]


def make_plugin(name: str, **answers: object) -> Voice:
    """Make a plugin that answers so, hook by hook.

    A mapping answers by the name of what is asked about, with 0 for others. Tasks are given by their names in a text.
    """
    hooks = {hook: _hook(hook, said) for hook, said in answers.items()}
    return type(name, (BatchPlugin,), {"name": name, **hooks})


def _hook(hook: str, said: object) -> object:
    answer: Callable[..., object] = _ANSWERS.get(hook, _by_name)

    @functools.wraps(_SPECIFIED[hook])
    def method(self: BatchPlugin, session: Session, *asked: Any) -> object:
        return answer(said, session, *asked)

    return hookimpl(method)


def _by_name(said: object, session: Session, *asked: Any) -> object:
    if not isinstance(said, Mapping):
        return said
    return next((said[thing.name] for thing in asked if thing.name in said), 0)


def _rejection(said: Mapping[str, str], session: Session, *asked: Any) -> object:
    reason = _by_name(said, session, *asked)
    return unschedulable(str(reason)) if reason else None


def _answer_names(said: str | None, session: Session, *asked: Any) -> Sequence[TaskInfo] | None:
    return None if said is None else [task for task in asked[-1] if task.name in said.split()]


def _row(said: str | None, session: Session, *asked: Any) -> int | None:
    return None if said is None else session.nodes.row(said)


_ANSWERS: dict[str, Callable[..., object]] = {
    **dict.fromkeys(("pre_predicate", "predicate", "job_valid"), _rejection),
    **dict.fromkeys(("preemptable", "reclaimable", "victim_tasks"), _answer_names),
    "best_node": _row,
}


#: A plugin of the configuration: one of its own or a stock one, perhaps with its flags.
Entry = Voice | str | tuple[Voice, Mapping[str, bool]]


class Rule(NamedTuple):
    """A rule by its name: what there is, and what a session makes of it."""

    name: str
    actions: str
    tiers: Sequence[Sequence[Entry]]
    given: dict[str, Any]
    expected: dict[str, Any]


def rule(
    name: str,
    tiers: Sequence[Sequence[Entry]],
    *gangs: Gang,
    actions: str = "allocate",
    nodes: Sequence[Node] = (make_node("n1", cpu=1),),
    queues: Sequence[Queue] = (),
    bound: Mapping[str, str] | None = None,
    evicted: str = "",
    let_in: str = "",
    says: Mapping[str, str] | None = None,
) -> Rule:
    """Write down what a session makes of gangs.

    `bound` lists pods by node, `evicted` victims, `let_in` the groups that are Inqueue; `says` is why pods wait.
    """
    stage = {"nodes": nodes, "queues": queues, "gangs": gangs}
    expected = {"bound": bound or {}, "evicted": evicted, "let_in": let_in, "says": says or {}}
    return Rule(name, actions, tiers, stage, expected)


def configured(actions: str, tiers: Sequence[Sequence[Entry]]) -> tuple[str, list[Voice]]:
    """Write the configuration, and list the classes that it names."""
    classes: list[Voice] = []

    def entry(of: Entry) -> dict[str, object]:
        if isinstance(of, str):
            return {"name": of}
        plugin, flags = of if isinstance(of, tuple) else (of, {})
        classes.append(plugin)
        return {"name": plugin.name, **flags}

    plugins = [{"plugins": [entry(of) for of in tier]} for tier in tiers]
    return json.dumps({"actions": actions, "tiers": plugins}), classes


def outcome(stage: Stage, said: Mapping[str, str]) -> dict[str, object]:
    bound: dict[str, str] = {}
    for pod, node in sorted(stage.bound.items()):
        bound[node] = f"{bound[node]} {pod}" if node in bound else pod
    return {
        "bound": bound,
        "evicted": " ".join(sorted(stage.evicted)),
        "let_in": " ".join(sorted(job.name for job in stage.engine.cache.jobs.values() if job.phase == "Inqueue")),
        "says": {pod: stage.message(pod) for pod in said},
    }
