"""The promise that hooks only look: they neither wait nor change what they are shown."""

from __future__ import annotations

import builtins
import io
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import msgspec

from kframework.framework.plugin import Plugin
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.testing.contract.questions import Look, Questions
from kframework.testing.contract.undoing import places, ready, reserve

#: Functions that wait for a disk, another process, the network or time, by module, and their descriptions.
_WAITING = (
    (time, "sleep", "time.sleep"),
    (builtins, "open", "open"),
    (io, "open", "open"),
    (os, "system", "os.system"),
    (socket, "getaddrinfo", "socket.getaddrinfo"),
    (socket.socket, "connect", "socket.connect"),
    (subprocess.Popen, "__init__", "subprocess.Popen"),
)


def only_looks(look: Look) -> Look:
    """Return the same look, at whose end everything must be as it was before, and in which no hook may wait."""

    def watching(questions: Questions) -> None:
        before = dict(_sight(questions.nodes, questions.pods))
        with _waiting_told(questions):
            look(questions)
        after = dict(_sight(questions.nodes, questions.pods))
        changed = next((title for title, seen in before.items() if after.get(title) != seen), None)
        if changed is not None:
            answered = f"a hook changes {changed}"
            questions.broken(_HOOKS, answered, "keep what changes in `state` or in the plugin; all else is shown only")
        if questions.cluster.state.statements:
            answered = "a hook leaves a statement open"
            questions.broken(
                _HOOKS, answered, "close it before the hook returns: `with handle.statement() as what_if:`"
            )

    return watching


_HOOKS = "all hooks up to permit"


def ask_all(questions: Questions) -> None:
    """Call every hook that may be called between two cycles, and ignore the answers."""
    for pod in questions.pods:
        if questions.has("pre_enqueue"):
            questions.said("pre_enqueue", pod, pod)
        if questions.has("sign"):
            questions.ask("sign", pod, questions.profile.sign, pod)
        questions.answers(pod)
        for _ in questions.columns(pod):
            pass
    for place in places(questions):
        pod, row = place
        state, name = ready(questions, place), questions.nodes[row].name
        reserve(questions, state, place)
        for hook in ("permit", "unreserve"):
            if questions.has(hook):
                questions.said(hook, pod, state, pod, name)


# -- waiting -----------------------------------------------------------------------------------------------------------


class _Waited(BaseException):
    """Raised instead of waiting; no Exception, so that no hook takes it for a failure of what it asked."""


@contextmanager
def _waiting_told(questions: Questions) -> Iterator[None]:
    """Prevent hooks from waiting: raise a violation that names what a hook waits for."""
    waited: list[tuple[str, str]] = []
    asker = threading.get_ident()

    def instead_of(call: Callable[..., object], title: str) -> Callable[..., object]:
        def refuse(*args: object, **options: object) -> object:
            if threading.get_ident() != asker:
                return call(*args, **options)
            waited.append((title, questions.asking))
            raise _Waited

        return refuse

    with ExitStack() as stack:
        for home, name, title in _WAITING:
            call = getattr(home, name)
            replacement = instead_of(call, title)
            stack.enter_context(patch.object(home, name, replacement))
            for module in _modules(questions.subject.plugin):
                for own in [own for own, value in vars(module).items() if value is call]:
                    stack.enter_context(patch.object(module, own, replacement))
        try:
            yield
        except _Waited:
            pass
    if waited:
        title, asked = waited[0]
        remedy = "wait in a source, in pre_bind, or in a coroutine for handle.spawn; a hook reads what is there"
        questions.broken(asked, f"calls {title}, which holds up the scheduler", remedy)


def _modules(plugin: type[Plugin]) -> Iterator[object]:
    names = dict.fromkeys(each.__module__ for each in plugin.__mro__ if issubclass(each, Plugin) and each is not Plugin)
    yield from (sys.modules[name] for name in names if name in sys.modules)


@contextmanager
def without_sleep(plugin: type[Plugin]) -> Iterator[None]:
    """Prevent the hooks of a plugin from sleeping, so that checks of other promises need not wait."""
    asker, sleep = threading.get_ident(), time.sleep

    def skip(seconds: float) -> None:
        if threading.get_ident() != asker:
            sleep(seconds)

    with ExitStack() as stack:
        for home in (time, *_modules(plugin)):
            for own in [own for own, value in vars(home).items() if value is sleep]:
                stack.enter_context(patch.object(home, own, skip))
        yield


# -- what is shown -----------------------------------------------------------------------------------------------------


def _sight(nodes: NodeTable, pods: Iterable[PendingPod]) -> Iterator[tuple[str, object]]:
    for column in list(nodes._columns()):
        yield f"column {id(column)}", column.values.tobytes()
    for node in nodes:
        yield f"node {node.name}", (msgspec.json.encode(node.object), [_facts(pod) for pod in node.pods])
    for pod in pods:
        yield f"pod {pod.key}", (msgspec.json.encode(pod.object), _facts(pod))
    yield "the change logs", (nodes.node_log.end, nodes.pod_log.end)


def _facts(pod: PodInfo) -> tuple[object, ...]:
    own = (pod.uid, pod.name, pod.node_name, pod.nominated_node_name, pod.priority, pod.row, pod.terminating)
    return (*own, pod.namespace, dict(pod.labels), msgspec.json.encode(pod.template.spec))
