"""The displayed content of an engine: what any engine has, and additions by one with its own places and tables."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Generic, NamedTuple

import msgspec

from kframework.clock import seconds_of
from kframework.core.queue.pool import PluginKey
from kframework.errors import escape_json, escape_text
from kframework.observe.history import History
from kframework.observe.web.sections import Details, Section
from kframework.scheduler.scheduler import E
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.waiting import ReservedPod

#: The place of pods that are reserved on a node but not bound yet; and of all other waiting pods, unless an engine
#: distinguishes more.
BINDING, PENDING = "binding", "pending"


class PodView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that waits: in a place of the engine's, or in its binding cycle (`place` "binding").

    `since` is when it was created, `queued` when it last entered the queue, `until` when its backoff or its wait in
    Permit ends; seconds since 1970. `plugins` reject it, or delay it in this `hook` since `asked` if it is being bound;
    if `held`, it is not tried before they admit it. `node` is the one it is nominated to, or reserved on.
    """

    pod: str
    place: str
    profile: str
    priority: int
    since: float | None
    queued: float
    tries: int
    plugins: tuple[str, ...] = ()
    held: bool = False
    until: float | None = None
    node: str = ""
    message: str = ""
    hook: str = ""
    asked: float | None = None


class EngineExplanation(msgspec.Struct, frozen=True):
    """An explanation by another engine than that of pods: its words, short and in full, and its data.

    `engine` is the name under which it is installed, never empty.
    """

    engine: str
    text: str
    wide: str
    explanation: msgspec.Raw


class EngineView(Generic[E]):
    """The content of the page and of a report for an engine; an engine with more to show derives its own class.

    `history` must be among the scheduler's observers. Nothing here changes anything.
    """

    def __init__(self, engine: E, history: History) -> None:
        self.engine: E = engine
        self.history: History = history

    def places(self) -> Mapping[str, int]:
        """Count the pods that wait, place by place, in the order in which the places are shown."""
        return {PENDING: sum(1 for _ in self._unplaced()), BINDING: len(self.engine.cluster.waiting)}

    def waiting(self, place: str) -> Iterable[PodView]:
        """Show the pods in a place one by one, in order; none for a place that there is not."""
        if place == BINDING:
            return map(self.binding_pod, self.engine.cluster.waiting)
        return map(self._pending, self._unplaced()) if place == PENDING else ()

    def place_of(self, pod: PodInfo) -> str:
        """Return where a pod waits; "" for one that does not."""
        if self.engine.cluster.waiting.get(pod.uid) is not None:
            return BINDING
        return PENDING if pod.uid in self.engine.pending else ""

    def holders(self) -> Mapping[PluginKey, int]:
        """Count the pods that each plugin holds back."""
        return {}

    def held_by(self, holder: PluginKey) -> Iterable[PodView]:
        """Show the pods one by one that a plugin holds back."""
        return ()

    def sections(self) -> tuple[Section, ...]:
        """Return the engine's own tables, in order; `details` returns the details of their rows."""
        return ()

    def details(self, sort: str, name: str) -> Details:
        """Return the details of one thing, such as a "pod" by `namespace/name`, or a reference of the engine's rows.

        They are empty if it does not exist.
        """
        return Details()

    def explanations(self, sort: str, names: Sequence[str]) -> Mapping[str, object]:
        """Explain things of a sort for a report, by name: as many as there is time for, the first ones first.

        What is returned is what `/explain?SORT=NAME` answers: an EngineExplanation each.
        """
        return {}

    def binding_pod(self, reserved: ReservedPod) -> PodView:
        """Show a pod that has its place on a node and is not bound yet."""
        hook, asked = reserved.running_hooks
        pod = reserved.pod
        return PodView(
            pod.key,
            BINDING,
            pod.scheduler_name,
            pod.priority,
            created(pod),
            reserved.since,
            max((decision.tries for decision in self.history.of(pod.uid).decisions), default=1),
            tuple(asked),
            until=reserved.deadline,
            node=reserved.node_name,
            hook=hook if asked else "",
            asked=min(asked.values(), default=None),
        )

    def last_message(self, pod: PendingPod) -> str:
        """Return how the last attempt or its binding ended, or the pod's condition if neither is kept."""
        decisions = self.history.of(pod.uid).decisions
        if decisions:
            binding = self.history.binding(decisions[-1])
            return binding.message if binding is not None else decisions[-1].message
        said = (condition.message for condition in pod.status.conditions if condition.type == "PodScheduled")
        return next(said, "")

    def _unplaced(self) -> Iterator[PendingPod]:
        waiting = self.engine.cluster.waiting
        return (pod for pod in self.engine.pending.values() if waiting.get(pod.uid) is None)

    def _pending(self, pod: PendingPod) -> PodView:
        decisions, since = self.history.of(pod.uid).decisions, created(pod)
        queued = decisions[-1].queued_at if decisions else since or self.engine.clock.now()
        tries = decisions[-1].tries if decisions else 0
        message = self.last_message(pod)
        return PodView(pod.key, PENDING, pod.scheduler_name, pod.priority, since, queued, tries, message=message)


def created(pod: PendingPod) -> float | None:
    """Return when a pod was created, in seconds since 1970."""
    since = pod.object.metadata.creation_timestamp
    return seconds_of(since) if since else None


#: The parts of the script in their order.
_SCRIPTS = "elements source words summary sections waiting decisions nodes profiles pod detail page".split()


class Document(NamedTuple):
    """A page, and the policy that must go with it where it is served; it names the page's script and style."""

    html: str
    policy: str


@cache
def live_page() -> Document:
    """Return the page that requests its data from the scheduler that served it."""
    return _document("kframework", "null", "connect-src 'self'")


def report_page(title: str, data: bytes) -> Document:
    """Return the page of these data, JSON; it makes no requests."""
    return _document(escape_text(title), escape_json(data.decode()).replace("<", "\\u003c"), "connect-src 'none'")


def _document(title: str, data: str, connections: str) -> Document:
    style, script = _read("page.css"), "\n".join(['"use strict";', *(_read(f"{name}.js") for name in _SCRIPTS)])
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "img-src data:",
            connections,
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )
    parts = {"policy": policy, "title": escape(title), "style": style, "data": data, "script": script}
    return Document(Template(_read("page.html")).substitute(parts), f"{policy}; frame-ancestors 'none'")


def _read(name: str) -> str:
    return files("kframework.observe.web").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
