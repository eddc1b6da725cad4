"""Several schedulers of one cluster, each with a shard of its nodes or pods, and what they cost in virtual time.

    replicas = Replicas(4, PodShards, decision_time=0.001, watch_delay=0.05)
    first, *others = replicas.engines
    controllers = [*STANDARD_CONTROLLERS, replicas.create_controller]
    Simulation("cluster.yaml", engine=first, replicas=others, controllers=controllers).run()
    print(replicas.describe_conflicts())

The schedulers share nothing but the cluster. What one binds, the others see `watch_delay` later, so two may choose the
last room on a node; `BindingAdmission` decides.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import ClassVar, NamedTuple

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.core.cycle.suspendable import ExtenderClient
from kframework.core.host import Host
from kframework.core.plugin_handle import ProfilesFactory
from kframework.core.pod_engine import PodEngine
from kframework.core.queue.queued_group import QueuedGroup
from kframework.framework.suspendable import Suspendable, wait_for
from kframework.in_memory.binding_admission import BindingAdmission
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import group_key_of, key_of, wait_until
from kframework.objects import ApiObject, Node, Pod
from kframework.observe.text_table import format_count
from kframework.scheduler.scheduler import EngineFactory
from kframework.state.inbox import Deleted, EngineMessage, Message, Synced, Upserted
from kframework.state.pods import PendingPod, QueuedPod
from kframework.values.status import Status

#: What is hashed to a replica: the kind, namespace and name of a pod or of its PodGroup.
ShardKey = tuple[str, ...]


class Delivery(NamedTuple):
    """A message on its way from the API server to a replica."""

    due: float
    engine: ReplicaEngine
    message: Message


class NominationElsewhere(EngineMessage, frozen=True):
    """A message that a pod of another replica has another nomination, or none any more."""

    pod: Pod


class Shards(ABC):
    """Which messages of the cluster each of several replicas gets."""

    def __init__(self, count: int) -> None:
        self.count: int = count

    def owner(self, *key: str) -> int:
        """Return the number of the replica that a key is hashed to."""
        return int.from_bytes(blake2b("/".join(key).encode(), digest_size=8).digest()) % self.count

    @abstractmethod
    def narrow(self, replica: int, message: Message) -> Message | None:
        """Return the message that a replica gets for one of the cluster; None if it gets none."""

    def hand_on(self, replica: int, pod: Pod) -> Iterator[tuple[int, Pod]]:
        """Yield who gets pods for which a replica has no node; by default it keeps them."""
        return iter(())


class PodShards(Shards):
    """Each replica owns pods by hash, those of a PodGroup together, and sees all nodes and what runs there.

    Of the waiting pods of others it sees the nominations: the room that these make by preemption is kept for them.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._nominated: list[set[str]] = [set() for _ in range(count)]  # uids of the pods whose nominations it has

    def narrow(self, replica: int, message: Message) -> Message | None:
        match message:
            case Upserted(Pod() as pod) | Deleted(Pod() as pod):
                if pod.spec.node_name or self.owner(*shard_key(pod)) == replica:
                    self._nominated[replica].discard(pod.metadata.uid)
                else:
                    return self._narrow_foreign(replica, message, pod)
        return message

    def _narrow_foreign(self, replica: int, message: Message, pod: Pod) -> Message | None:
        uid, nominated = pod.metadata.uid, self._nominated[replica]
        was_nominated = uid in nominated
        nominated.discard(uid)
        if isinstance(message, Deleted):
            return message if was_nominated else None
        if pod.status.nominated_node_name:
            nominated.add(uid)
        return NominationElsewhere(pod) if was_nominated or uid in nominated else None


class NodeShards(Shards):
    """The replicas get nodes in turn, and each sees only what runs on its own.

    A pod goes to the replica that it is hashed to. If that has no node for it, it goes to the next one too, and so on
    until all have it: the first that finds room binds it. The pods of a PodGroup go together.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._owners: dict[str, int] = {}  # by the name of the node
        self._offers: dict[ShardKey, int] = {}  # how many replicas have the pods, if more than one
        #: The waiting pods that each replica has, by uid.
        self._waiting: list[dict[ShardKey, dict[str, Pod]]] = [{} for _ in range(count)]

    def narrow(self, replica: int, message: Message) -> Message | None:
        match message:
            case Upserted(Node(metadata=metadata)) | Deleted(Node(metadata=metadata)):
                return message if self._node_owner(metadata.name) == replica else None
            case Upserted(Pod() as pod) if not pod.spec.node_name:
                key = shard_key(pod)
                if (replica - self.owner(*key)) % self.count >= self._offers.get(key, 1):
                    return None
                self._show(replica, key, pod)
            case Upserted(Pod() as pod) | Deleted(Pod() as pod):
                was_shown = self._forget(replica, pod)
                if not pod.spec.node_name or self._node_owner(pod.spec.node_name) != replica:
                    return Deleted(pod) if was_shown else None
        return message

    def hand_on(self, replica: int, pod: Pod) -> Iterator[tuple[int, Pod]]:
        key = shard_key(pod)
        home, offers = self.owner(*key), self._offers.get(key, 1)
        waiting = self._waiting[replica].get(key)
        if not waiting or (replica - home) % self.count != offers - 1 or offers == self.count:
            return
        self._offers[key] = offers + 1
        following = (home + offers) % self.count
        for each in waiting.values():
            self._show(following, key, each)
            yield following, each

    def _node_owner(self, name: str) -> int:
        return self._owners.setdefault(name, len(self._owners) % self.count)

    def _show(self, replica: int, key: ShardKey, pod: Pod) -> None:
        self._waiting[replica].setdefault(key, {})[pod.metadata.uid] = pod

    def _forget(self, replica: int, pod: Pod) -> bool:
        """Forget a pod that no longer waits; return whether the replica had it."""
        key = shard_key(pod)
        pods = self._waiting[replica].get(key, {})
        if pods.pop(pod.metadata.uid, None) is None:
            return False
        if not pods:
            del self._waiting[replica][key]
            if group_key_of(pod) is None:  # else a later pod of the group joins those that are placed
                self._offers.pop(key, None)
        return True


def shard_key(pod: Pod) -> ShardKey:
    """Return what decides which replica gets a pod: its PodGroup, or the pod itself."""
    group = group_key_of(pod)
    return ("Pod", *key_of(pod)) if group is None else ("PodGroup", *group)


class Replicas:
    """The replicas of a scheduler; a controller of the simulation that delivers what they watch.

    Attributes:
        shards: Who gets what.
        engines: Create the engine of each replica.
        admission: What decides conflicts, and counts them; None for a single replica, which has none.
        decision_time: The seconds that a replica takes for each attempt to schedule a pod. What the replica decides by
            is as old as the beginning of the attempt, and what it decides is bound at the end.
        watch_delay: The seconds until a replica hears of a change of the cluster.
    """

    kinds: ClassVar[Sequence[type[ApiObject]]] = ()

    def __init__(
        self, count: int, shards: type[Shards] = PodShards, *, decision_time: float = 0.0, watch_delay: float = 0.0
    ) -> None:
        self.shards: Shards = shards(count)
        self.decision_time: float = decision_time
        self.watch_delay: float = watch_delay
        self.on_idle: Callable[[], None] = lambda: None
        self.engines: Sequence[EngineFactory[PodEngine]] = [self._engine_factory(each) for each in range(count)]
        self._running: dict[int, ReplicaEngine] = {}
        self._under_way: deque[Delivery] = deque()
        self.admission: BindingAdmission | None = None
        self._clock: Clock | None = None
        self._wake = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether no message is on its way."""
        return not self._under_way

    def describe_conflicts(self) -> str:
        """Describe the bindings that lost; "" if there were none."""
        admission = self.admission
        if admission is None or not (admission.rejected or admission.late):
            return ""
        rejected, late = format_count(admission.rejected, "binding"), format_count(admission.late, "pod")
        return f"conflicts of replicas: {rejected} to nodes that others had filled, {late} that others had bound"

    def create_controller(self, cluster: MemoryCluster, clock: Clock) -> Replicas:
        """Begin to follow a cluster; return itself, the controller."""
        self._clock = clock
        if self.shards.count > 1:
            self.admission = BindingAdmission(cluster)
        return self

    async def run(self) -> None:
        """Deliver each message when it is due."""
        assert self._clock is not None
        while True:
            self._wake.clear()
            while self._under_way and self._under_way[0].due <= self._clock.now():
                delivery = self._under_way.popleft()
                delivery.engine.inbox.offer(delivery.message)
            if not self._under_way:
                self.on_idle()
            await wait_until(self._under_way[0].due if self._under_way else None, self._wake, self._clock)

    def receive(self, engine: ReplicaEngine, message: Message) -> None:
        """Pass a message of the cluster on to a replica, as far as it is for that."""
        narrowed = self.shards.narrow(engine.number, message)
        if narrowed is not None:
            self._send(engine, narrowed)

    def hand_on(self, engine: ReplicaEngine, pod: Pod) -> None:
        """Hand a pod that a replica has no node for to the next one."""
        for number, waiting in self.shards.hand_on(engine.number, pod):
            self._send(self._running[number], Upserted(waiting))

    def _send(self, engine: ReplicaEngine, message: Message) -> None:
        if not self.watch_delay or not engine.is_listed:
            engine.is_listed |= isinstance(message, Synced)
            engine.inbox.offer(message)
            return
        self._under_way.append(Delivery(engine.clock.now() + self.watch_delay, engine, message))
        if len(self._under_way) == 1:
            self._wake.set()

    def _engine_factory(self, number: int) -> EngineFactory[ReplicaEngine]:
        def create(
            configuration: Configuration,
            clock: Clock,
            host: Host,
            extenders: ExtenderClient,
            profiles: ProfilesFactory,
        ) -> ReplicaEngine:
            options = configuration.options
            own = options.model_copy(update={"seed": options.seed + number})
            configuration = replace(configuration, options=own)
            engine = ReplicaEngine.from_configuration(configuration, clock, host, extenders, profiles)
            engine.replicas, engine.number = self, number
            if number:  # replicas that look at the same nodes first, or break ties alike, choose the same ones
                engine.rotation.next_start_index = engine.seeds.generator("start index").randrange(1 << 31)
            self._running[number] = engine
            return engine

        return create


class ReplicaEngine(PodEngine):
    """The engine of a replica: attempts take time, and what it watches is narrowed to its shard and late.

    Attributes:
        replicas: All replicas.
        number: The number of this one, from 0.
        is_listed: Whether it has the first list of every kind.
    """

    pending_cycle: Suspendable[None] | None
    replicas: Replicas
    number: int = 0
    is_listed: bool = False

    def offer(self, message: Message) -> None:
        if isinstance(message, Upserted | Deleted | Synced):
            self.replicas.receive(self, message)
        else:
            super().offer(message)

    @property
    def can_place_runs(self) -> bool:
        return not self.replicas.decision_time and super().can_place_runs

    def failed(self, queued: QueuedPod, status: Status, nominated: str | None) -> None:
        super().failed(queued, status, nominated)
        if not self.cluster.nominator.nominated_node(queued.pod.uid):  # else it waits there for its victims to end
            self.replicas.hand_on(self, queued.pod.object)

    def _apply(self, message: Message) -> None:
        if isinstance(message, NominationElsewhere):
            pod = PendingPod(message.pod, self.cluster.interner)
            self.handlers.nominate(pod, pod.nominated_node_name)
        else:
            super()._apply(message)

    def _run(self, cycle: Suspendable[None]) -> None:
        if self.replicas.decision_time:
            self.pending_cycle = self._take_time(1, cycle)
        else:
            super()._run(cycle)

    def _group_cycle(self, queued: QueuedGroup) -> Suspendable[None]:
        return self._take_time(len(queued.members), super()._group_cycle(queued))

    def _take_time(self, pods: int, cycle: Suspendable[None]) -> Suspendable[None]:
        if self.replicas.decision_time:
            yield from wait_for(asyncio.sleep(pods * self.replicas.decision_time))
        yield from cycle
