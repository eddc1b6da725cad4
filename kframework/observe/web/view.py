"""The displayed content of an engine: what any engine has, and additions by one with its own queues and tables."""

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
from kframework.observe.web.sections import DetailView, Section
from kframework.scheduler.scheduler import E
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.waiting import ReservedPod
from kframework.values.answer import Answer

#: The queue of pods that are reserved on a node but not bound yet; and of all other waiting pods, unless an engine
#: distinguishes more.
BINDING, PENDING = "binding", "pending"


class PodView(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A pod that waits: in a queue of the engine's, or in its binding cycle (`queue` "binding").

    `created_at` is when it was created, `queued_at` when it last entered the queue, `until` when its backoff or its
    wait in Permit ends; seconds since 1970. `plugins` reject it, or delay it in this `hook` since `hook_since` if it is
    being bound; if `held`, it is not tried before they admit it. `node` is its nominated or reserved node, `group` the
    PodGroup that it is tried with.
    """

    pod: str
    queue: str
    profile: str
    priority: int
    created_at: float | None
    queued_at: float
    tries: int
    plugins: tuple[str, ...] = ()
    held: bool = False
    until: float | None = None
    node: str = ""
    message: str = ""
    hook: str = ""
    hook_since: float | None = None
    group: str = ""


class EngineExplanation(Answer, frozen=True):
    """An explanation by the installed `engine`, never the pod engine: its text, short and `wide`, and its data."""

    engine: str
    text: str
    wide: str
    explanation: msgspec.Raw


class EngineView(Generic[E]):
    """What the page and a report show of an engine; `history` must be among the scheduler's observers."""

    def __init__(self, engine: E, history: History) -> None:
        self.engine: E = engine
        self.history: History = history

    def count_by_queue(self) -> Mapping[str, int]:
        """Count the waiting pods by queue, in display order."""
        return {PENDING: sum(1 for _ in self._pods_not_binding()), BINDING: len(self.engine.cluster.waiting)}

    def pods_in(self, queue: str) -> Iterable[PodView]:
        """Yield the pods of a queue in order; none for an unknown queue."""
        if queue == BINDING:
            return map(self.binding_pod, self.engine.cluster.waiting)
        return map(self._pod_view, self._pods_not_binding()) if queue == PENDING else ()

    def queue_of(self, pod: PodInfo) -> str:
        """Return the queue in which a pod waits; "" if it does not wait."""
        if self.engine.cluster.waiting.get(pod.uid) is not None:
            return BINDING
        return PENDING if pod.uid in self.engine.pending else ""

    def count_by_plugin(self) -> Mapping[PluginKey, int]:
        """Count the pods that each plugin holds back."""
        return {}

    def pods_held_by(self, holder: PluginKey) -> Iterable[PodView]:
        """Yield the pods that a plugin holds back."""
        return ()

    def sections(self) -> tuple[Section, ...]:
        """Return the engine's own tables, in order; `details` returns the details of their rows."""
        return ()

    def details(self, kind: str, name: str) -> DetailView:
        """Return the details of one thing, such as a "pod" by `namespace/name`; empty details if it does not exist."""
        return DetailView()

    def explanations(self, kind: str, names: Sequence[str]) -> Mapping[str, object]:
        """Explain the first things of a kind, as time permits: by name what `/explain?KIND=NAME` returns."""
        return {}

    def binding_pod(self, reserved: ReservedPod) -> PodView:
        """Return the view of a pod that is reserved on a node but not bound yet."""
        hook, hook_since = reserved.running_hooks
        pod = reserved.pod
        return PodView(
            pod.key,
            BINDING,
            pod.scheduler_name,
            pod.priority,
            creation_time(pod),
            reserved.since,
            max((decision.pod_attempts for decision in self.history.for_pod(pod.uid).decisions), default=1),
            tuple(hook_since),
            until=reserved.deadline,
            node=reserved.node_name,
            hook=hook if hook_since else "",
            hook_since=min(hook_since.values(), default=None),
        )

    def last_message(self, pod: PendingPod) -> str:
        """Return how the last attempt or its binding ended, or the pod's condition if neither is kept."""
        decisions = self.history.for_pod(pod.uid).decisions
        if decisions:
            binding = self.history.binding_for(decisions[-1])
            return binding.message if binding is not None else decisions[-1].message
        messages = (condition.message for condition in pod.status.conditions if condition.type == "PodScheduled")
        return next(messages, "")

    def _pods_not_binding(self) -> Iterator[PendingPod]:
        waiting = self.engine.cluster.waiting
        return (pod for pod in self.engine.pending.values() if waiting.get(pod.uid) is None)

    def _pod_view(self, pod: PendingPod) -> PodView:
        decisions, created_at = self.history.for_pod(pod.uid).decisions, creation_time(pod)
        queued_at = decisions[-1].queued_at if decisions else created_at or self.engine.clock.now()
        tries = decisions[-1].pod_attempts if decisions else 0
        message = self.last_message(pod)
        return PodView(
            pod.key, PENDING, pod.scheduler_name, pod.priority, created_at, queued_at, tries, message=message
        )


def creation_time(pod: PendingPod) -> float | None:
    """Return when a pod was created, in seconds since 1970."""
    created_at = pod.object.metadata.creation_timestamp
    return seconds_of(created_at) if created_at else None


#: The parts of the script in their order.
_SCRIPTS = "elements source format summary sections waiting decisions nodes profiles pod detail page".split()


class HtmlPage(NamedTuple):
    """A page, and the policy that must go with it where it is served; it names the page's script and style."""

    html: str
    policy: str


@cache
def live_page() -> HtmlPage:
    return _scripted_page("kframework", "null", "connect-src 'self'")


def report_page(title: str, data: bytes) -> HtmlPage:
    """Return the page of these data, JSON; it makes no requests."""
    return _scripted_page(escape_text(title), escape_json(data.decode()).replace("<", "\\u003c"), "connect-src 'none'")


def static_page(title: str, body: str) -> str:
    """Return a self-contained page without scripts, in the style of the others; `body` is HTML."""
    style = f"{_read('page.css')}\n{_read('static.css')}"
    policy = f"default-src 'none'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    return _document(escape_text(title), policy, style, f'<main class="static">\n{body}\n</main>\n')


def _scripted_page(title: str, data: str, connections: str) -> HtmlPage:
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
    body = Template(_read("page.html")).substitute(data=data, script=script)
    return HtmlPage(_document(title, policy, style, body), f"{policy}; frame-ancestors 'none'")


def _document(title: str, policy: str, style: str, body: str) -> str:
    parts = {"policy": policy, "title": escape(title), "style": style, "body": body}
    return Template(_read("document.html")).substitute(parts)


def _read(name: str) -> str:
    return files("kframework.observe.web").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
