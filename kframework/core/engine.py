"""The base of engines, which decide where pods go: the pod engine of the core, and those of other distributions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping

from kframework.clock import Clock, Seeds
from kframework.core.cycle.run import Run
from kframework.core.cycle.search import Search
from kframework.core.effects import Host
from kframework.core.runtime.profiles import Profiles
from kframework.framework.handle import Preemption
from kframework.framework.plugin import Watch
from kframework.state.cluster import ClusterState
from kframework.state.inbox import Inbox, Message
from kframework.state.pods import PendingPod


class Engine(ABC):
    """What drives decisions; the scheduler only feeds it messages and steps it.

    A derived class sets `profiles` last: while they are compiled plugins reach its tables, clock and seeds.

    Attributes:
        cluster: The live tables.
        clock: The only source of time.
        effects: What it has done outside.
        seeds: Where all random generators come from.
        inbox: What has arrived and is not yet applied.
        profiles: The profiles by scheduler name.
        synced: Whether the first listing of every kind has been applied.
        timed_share: The share of attempts in which plugins are to be timed.
        current: The search that is going on; None between two cycles.
        under_way: What of a step must be awaited before the next one; None if it is done.
        watches: What it follows and writes itself, beside what plugins do and the binding of pods.
        ended_pods: Whether pods that have ended are of interest until they are deleted.
    """

    profiles: Profiles
    watches: tuple[Watch, ...] = ()
    ended_pods: bool = False

    def __init__(self, cluster: ClusterState, clock: Clock, effects: Host, seed: int) -> None:
        self.cluster: ClusterState = cluster
        self.clock: Clock = clock
        self.effects: Host = effects
        self.seeds: Seeds = Seeds(seed)
        self.inbox: Inbox = Inbox()
        self.synced: bool = False
        self.timed_share: float = 0.0
        self.current: Search | None = None
        self.under_way: Awaitable[None] | None = None

    @property
    @abstractmethod
    def pending(self) -> Mapping[str, PendingPod]:
        """The pods that the engine has to find nodes for, by uid."""

    @property
    @abstractmethod
    def preemption(self) -> Preemption:
        """The evaluator of what preemption would come to."""

    @property
    @abstractmethod
    def deadline(self) -> float | None:
        """When something is due next, in seconds since 1970; None if nothing is."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether nothing is left to do but to wait for what may happen in the cluster."""

    @abstractmethod
    def retrying(self) -> tuple[str, ...]:
        """Name the pods that are still retried, as namespace/name."""

    @abstractmethod
    def step(self) -> bool:
        """Do the next piece of work; return whether there may be more at once."""

    @abstractmethod
    def catch_up(self) -> None:
        """Apply the messages and do what is due, but begin nothing."""

    def offer(self, message: Message) -> None:
        """Take a message in, to be applied before the next piece of work."""
        self.inbox.offer(message)

    def bind_individually(self, run: Run) -> None:
        """Start the binding cycle of each pod of a run that could not be bound at once."""
        raise NotImplementedError(f"{type(self).__name__} hands no runs over")

    def ask(self, message: Message) -> None:
        """Take a plugin's request."""
        self.offer(message)
