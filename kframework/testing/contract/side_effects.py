"""The promise that hooks have no side effects: they neither wait nor change what they get."""

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
from kframework.testing.contract.probe import Check, PluginProbe
from kframework.testing.contract.reversal import choose_assignments, prepare_attempt, reserve

#: Functions that wait for a disk, another process, the network or time, by module, and their descriptions.
_BLOCKING_CALLS = (
    (time, "sleep", "time.sleep"),
    (builtins, "open", "open"),
    (io, "open", "open"),
    (os, "system", "os.system"),
    (socket, "getaddrinfo", "socket.getaddrinfo"),
    (socket.socket, "connect", "socket.connect"),
    (subprocess.Popen, "__init__", "subprocess.Popen"),
)


def without_side_effects(check: Check) -> Check:
    """Return a check that also fails if a hook waits or changes something."""

    def check_unchanged(probe: PluginProbe) -> None:
        before = dict(_snapshot(probe.nodes, probe.pods))
        with _forbid_waiting(probe):
            check(probe)
        after = dict(_snapshot(probe.nodes, probe.pods))
        changed = next((title for title, value in before.items() if after.get(title) != value), None)
        if changed is not None:
            result = f"a hook changes {changed}"
            probe.fail(_HOOKS, result, "store what changes in `state` or in the plugin; all else is read-only")
        if probe.cluster.state.statements:
            result = "a hook leaves a statement open"
            probe.fail(_HOOKS, result, "close it before the hook returns: `with handle.statement() as what_if:`")

    return check_unchanged


#: The file of the functions that find and load modules.
_IMPORT_MACHINERY = "<frozen importlib._bootstrap>"

_HOOKS = "all hooks up to permit"


def call_all_hooks(probe: PluginProbe) -> None:
    """Call every hook that may be called between two cycles, and ignore the answers."""
    for pod in probe.pods:
        if probe.has("pre_enqueue"):
            probe.call_hook("pre_enqueue", pod, pod)
        if probe.has("sign"):
            probe.call_function("sign", pod, probe.profile.sign, pod)
        probe.answers(pod)
        for _ in probe.call_columnar_forms(pod):
            pass
    for assignment in choose_assignments(probe):
        pod, row = assignment
        state, name = prepare_attempt(probe, assignment), probe.nodes[row].name
        reserve(probe, state, assignment)
        for hook in ("permit", "unreserve"):
            if probe.has(hook):
                probe.call_hook(hook, pod, state, pod, name)


# -- waiting -----------------------------------------------------------------------------------------------------------


class _WaitAttempt(BaseException):
    """Raised instead of waiting; no Exception, so that no hook handles it as a failure of its call."""


@contextmanager
def _forbid_waiting(probe: PluginProbe) -> Iterator[None]:
    """Prevent hooks from waiting: raise a violation that names what a hook waits for."""
    attempts: list[tuple[str, str]] = []
    thread = threading.get_ident()

    def replace_call(call: Callable[..., object], title: str) -> Callable[..., object]:
        def refuse(*args: object, **options: object) -> object:
            if threading.get_ident() != thread or _is_importing():
                return call(*args, **options)
            attempts.append((title, probe.current_call))
            raise _WaitAttempt

        return refuse

    with ExitStack() as stack:
        for home, name, title in _BLOCKING_CALLS:
            call = getattr(home, name)
            replacement = replace_call(call, title)
            stack.enter_context(patch.object(home, name, replacement))
            for module in _modules(probe.subject.plugin):
                for own in [own for own, value in vars(module).items() if value is call]:
                    stack.enter_context(patch.object(module, own, replacement))
        try:
            yield
        except _WaitAttempt:
            pass
    if attempts:
        title, hook = attempts[0]
        remedy = "wait in a source, in pre_bind, or in a coroutine for handle.spawn; a hook only reads"
        probe.fail(hook, f"calls {title}, which blocks the scheduler", remedy)


def _is_importing() -> bool:
    """Return whether a module is being imported: pytest, which rewrites assertions, opens its file in Python."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename != _IMPORT_MACHINERY:
        frame = frame.f_back
    return frame.f_code.co_filename == _IMPORT_MACHINERY


def _modules(plugin: type[Plugin]) -> Iterator[object]:
    names = dict.fromkeys(each.__module__ for each in plugin.__mro__ if issubclass(each, Plugin) and each is not Plugin)
    yield from (sys.modules[name] for name in names if name in sys.modules)


@contextmanager
def skip_sleep(plugin: type[Plugin]) -> Iterator[None]:
    """Prevent the hooks of a plugin from sleeping, so that checks of other promises need not wait."""
    thread, sleep = threading.get_ident(), time.sleep

    def skip(seconds: float) -> None:
        if threading.get_ident() != thread:
            sleep(seconds)

    with ExitStack() as stack:
        for home in (time, *_modules(plugin)):
            for own in [own for own, value in vars(home).items() if value is sleep]:
                stack.enter_context(patch.object(home, own, skip))
        yield


# -- snapshots ---------------------------------------------------------------------------------------------------------


def _snapshot(nodes: NodeTable, pods: Iterable[PendingPod]) -> Iterator[tuple[str, object]]:
    for column in list(nodes._columns()):
        yield f"column {id(column)}", column.values.tobytes()
    for node in nodes:
        yield f"node {node.name}", (msgspec.json.encode(node.object), [_pod_facts(pod) for pod in node.pods])
    for pod in pods:
        yield f"pod {pod.key}", (msgspec.json.encode(pod.object), _pod_facts(pod))
    yield "the change logs", (nodes.node_log.end, nodes.pod_log.end)


def _pod_facts(pod: PodInfo) -> tuple[object, ...]:
    own = (pod.uid, pod.name, pod.node_name, pod.nominated_node_name, pod.priority, pod.row, pod.terminating)
    return (*own, pod.namespace, dict(pod.labels), msgspec.json.encode(pod.template.spec))
