"""Pods that are reserved on a node but not yet bound, and the Permit verdicts they wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from kframework.state.pods import PendingPod
from kframework.state.undo_log import UndoLog
from kframework.values.status import Code, Status

_ALLOWED = Status(Code.SUCCESS)


class WaitingPod(Protocol):
    """A pod that is reserved on a node and waits for its Permit plugins; the first verdict wins."""

    @property
    def pod(self) -> PendingPod:
        """The pod that waits."""

    @property
    def node_name(self) -> str:
        """The node that is reserved for it."""

    @property
    def pending_plugins(self) -> Sequence[str]:
        """The plugins that have not allowed the pod yet, in configured order."""

    def allow(self, plugin: str) -> bool:
        """End this plugin's wait: the pod continues when no plugin waits any more; False: already decided."""

    def reject(self, plugin: str, message: str) -> bool:
        """Send the pod back, on behalf of this plugin; False: already decided."""


class ReservedPod(WaitingPod):
    """A pod that is reserved on a node but not bound yet.

    While Permit plugins wait, `pending` maps each to its deadline (seconds since 1970). The first verdict wins: None
    while undecided, `Status(SUCCESS)` when the last plugin has allowed the pod, a rejection, or an error.

    A preemptor may preempt the pod while it waits, and again while it is in PreBind; later it is too late.
    """

    __slots__ = (
        *("_call_starts", "_cancel", "_hook", "_notify", "_preempted"),
        *("on_change", "node_name", "pending", "pod", "since", "verdict"),
    )

    def __init__(self, pod: PendingPod, node_name: str, pending: dict[str, float], since: float) -> None:
        self.pod: PendingPod = pod
        self.node_name: str = node_name
        self.pending: dict[str, float] = pending
        self.since: float = since
        self.verdict: Status | None = None if pending else _ALLOWED
        #: Called with the plugin that has allowed the pod while others wait on, or with "" and the verdict.
        self.on_change: Callable[[str, Status | None], None] = lambda plugin, verdict: None
        #: The hook that its binding is in, and when each plugin's call began.
        self._hook: str = ""
        self._call_starts: dict[str, float] = {}
        self._notify: Callable[[], None] | None = None
        self._cancel: Callable[[], None] | None = None
        self._preempted: Status | None = None

    @property
    def pending_plugins(self) -> Sequence[str]:
        return tuple(self.pending)

    @property
    def deadline(self) -> float | None:
        """The first timeout of a waiting plugin, in seconds since 1970; None if none waits."""
        return min(self.pending.values()) if self.verdict is None else None

    def allow(self, plugin: str) -> bool:
        if self.verdict is not None:
            return False
        self.pending.pop(plugin, None)
        if not self.pending:
            return self.decide(_ALLOWED)
        self.on_change(plugin, None)
        return True

    def reject(self, plugin: str, message: str) -> bool:
        return self.decide(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str) -> bool:
        """Requeue the pod with backoff for a more important one; False if it neither waits nor is in PreBind."""
        if self._cancel is None:
            return self.decide(Status(Code.ERROR, ("preempted",), plugin))
        self._preempted = Status(Code.ERROR, (f"preempted by {plugin}",))
        cancel, self._cancel = self._cancel, None
        cancel()
        return True

    def hook_started(self, hook: str, plugin: str, now: float) -> None:
        """Record that this hook of a plugin is called from now on; concurrent plugins are in the same hook."""
        self._hook = hook
        self._call_starts[plugin] = now

    def hook_finished(self, plugin: str) -> None:
        self._call_starts.pop(plugin, None)

    @property
    def running_hooks(self) -> tuple[str, Mapping[str, float]]:
        """The hook that its binding waits for, and the start of each plugin's call (seconds since 1970), if any."""
        if self.verdict is None:
            return "permit", dict.fromkeys(self.pending, self.since)
        return self._hook, self._call_starts

    def describe_wait(self, now: float) -> str:
        """Return what its binding waits for and for how long, as `in Quota.pre_bind for 40 s`; "" if for nothing."""
        hook, starts = self.running_hooks
        verb = "waiting on" if self.verdict is None else "in"
        return ", ".join(f"{verb} {plugin}.{hook} for {now - since:.0f} s" for plugin, since in starts.items())

    def start_pre_bind(self, cancel: Callable[[], None]) -> None:
        """Allow `preempt` to cancel the binding from now on."""
        self._cancel = cancel

    def end_pre_bind(self) -> Status | None:
        """End the period in which the binding can be cancelled; return the error if it was."""
        self._cancel = None
        return self._preempted

    @property
    def is_rejected(self) -> bool:
        """Whether the pod is about to be requeued."""
        decided_against = self.verdict is not None and self.verdict.code != Code.SUCCESS
        return decided_against or self._preempted is not None

    def on_verdict(self, notify: Callable[[], None]) -> None:
        """Call back once when there is a verdict: immediately if there is one already."""
        self._notify = notify
        if self.verdict is not None:
            notify()

    def decide(self, verdict: Status) -> bool:
        """Set the verdict; False: there is one already."""
        if self.verdict is not None:
            return False
        self.verdict = verdict
        self.on_change("", verdict)
        if self._notify is not None:
            self._notify()
        return True

    def __repr__(self) -> str:
        state = f"waits for {', '.join(self.pending)}" if self.verdict is None else self.verdict.code.title
        return f"<ReservedPod {self.pod.key} on {self.node_name}: {state}>"


class WaitingPods:
    """The reserved pods that are not yet bound, by uid, oldest first."""

    def __init__(self, undo_log: UndoLog | None = None) -> None:
        self._undo_log = UndoLog() if undo_log is None else undo_log
        self._pods: dict[str, ReservedPod] = {}
        self._waiting: dict[str, ReservedPod] = {}  # those that had to wait: few of many

    def add(self, reserved: ReservedPod) -> None:
        self._pods[reserved.pod.uid] = reserved
        if reserved.verdict is None:
            self._waiting[reserved.pod.uid] = reserved
        if self._undo_log.is_open:
            self._undo_log.record(partial(self.remove, reserved.pod.uid), partial(self.add, reserved))

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._waiting.pop(uid, None)

    def get(self, uid: str) -> ReservedPod | None:
        return self._pods.get(uid)

    def __iter__(self) -> Iterator[ReservedPod]:
        return iter(self._pods.values())

    def awaiting_permit(self) -> Iterator[ReservedPod]:
        return (reserved for reserved in list(self._waiting.values()) if reserved.verdict is None)

    @property
    def deadline(self) -> float | None:
        """The earliest moment at which a wait runs out, in seconds since 1970."""
        if not self._waiting:  # called before every cycle
            return None
        return min(
            (reserved.deadline for reserved in self.awaiting_permit() if reserved.deadline is not None), default=None
        )

    def __len__(self) -> int:
        return len(self._pods)
