"""The base class of engines, which decide where pods run: the core's pod engine and engines of other distributions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from kframework.clock import Clock, Seeds
from kframework.core.cycle.run import Run
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import run_sync
from kframework.core.host import Host
from kframework.core.runtime.profiles import Profiles
from kframework.framework.handle import Preemption
from kframework.framework.plugin import Watch
from kframework.framework.suspendable import Suspendable
from kframework.state.cluster import ClusterState
from kframework.state.inbox import Inbox, Message
from kframework.state.pods import PendingPod


class Engine(ABC):
    """A driver of scheduling decisions; the scheduler only passes it messages and calls `step`.

    A derived class sets `profiles` last: plugins access its tables, clock and seeds while profiles are compiled.

    Attributes:
        cluster: The live tables.
        clock: The only source of time.
        host: The interface for side effects in the cluster.
        seeds: The source of all random generators.
        inbox: Messages that are not applied yet.
        profiles: The profiles by scheduler name.
        synced: Whether the first listing of every kind has been applied.
        timed_share: The share of attempts in which plugins are timed.
        current_search: The search in progress; None between two cycles.
        pending_cycle: The rest of the current step, to be run before the next one; None if the step is complete.
        watches: What the engine itself watches and writes, in addition to plugins and pod binding.
        ended_pods: Whether the engine needs terminated pods until they are deleted.
    """

    profiles: Profiles
    watches: tuple[Watch, ...] = ()
    ended_pods: bool = False

    def __init__(self, cluster: ClusterState, clock: Clock, host: Host, seed: int) -> None:
        self.cluster: ClusterState = cluster
        self.clock: Clock = clock
        self.host: Host = host
        self.seeds: Seeds = Seeds(seed)
        self.inbox: Inbox = Inbox()
        self.synced: bool = False
        self.timed_share: float = 0.0
        self.current_search: Search | None = None
        self.pending_cycle: Suspendable[None] | None = None

    @property
    @abstractmethod
    def pending(self) -> Mapping[str, PendingPod]:
        """The pods that the engine must find nodes for, by uid."""

    @property
    @abstractmethod
    def preemption(self) -> Preemption:
        """The evaluator of preemption dry runs."""

    @property
    @abstractmethod
    def deadline(self) -> float | None:
        """The time of the next scheduled work, in seconds since 1970; None if there is none."""

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether the engine is idle until the cluster changes."""

    @abstractmethod
    def retried_pods(self) -> tuple[str, ...]:
        """Return the pods that are still retried, as namespace/name."""

    @abstractmethod
    def step(self) -> bool:
        """Do the next piece of work, or leave the rest as `pending_cycle`; return whether more may be ready."""

    def complete_step(self) -> None:
        """Run the rest of the step without an event loop; raise RuntimeError if it waits for an extender."""
        if self.pending_cycle is not None:
            run_sync(self.pending_cycle)

    @abstractmethod
    def apply_messages(self) -> None:
        """Apply messages and run due timers without starting an attempt."""

    def apply_some_messages(self, limit: int) -> bool:
        """Apply this many messages if more than that wait, or a part of other long work; return whether it did.

        The rest is done by `step` or `apply_messages`, as is all by an engine that does not override this.
        """
        return False

    def offer(self, message: Message) -> None:
        """Queue a message to be applied before the next piece of work."""
        self.inbox.offer(message)

    def bind_individually(self, run: Run) -> None:
        """Start the binding cycle of each pod of a run that could not be bound at once."""
        raise NotImplementedError(f"{type(self).__name__} does not bind runs")

    def request(self, message: Message) -> None:
        """Queue a plugin's request."""
        self.offer(message)
