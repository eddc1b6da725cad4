"""The engine of a shadow: it decides the attempts of another engine again, on that one's tables."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from kframework.config.configuration import Configuration
from kframework.core.cycle.attempt import Attempt
from kframework.core.cycle.records import Decision
from kframework.core.cycle.results import FitError, Outcome, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import run_sync
from kframework.core.dry_engine import DryEngine
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.registry import Registry
from kframework.core.runtime.timing import AttemptTrace
from kframework.core.shadow.isolation import ShadowHandle, ShadowHost
from kframework.core.shadow.read_only import ReadOnlyRegistry
from kframework.errors import PluginError
from kframework.framework.suspendable import Suspendable
from kframework.state.inbox import AnswersInvalidated, Message
from kframework.state.pod_templates import PodKind
from kframework.state.pods import PendingPod, QueuedPod


class ShadowEngine(DryEngine):
    """An engine with one profile, that of a shadow, which has the name of the profile that it follows.

    Its requests and events go nowhere, and it has its own view of pods: what it remembers of a kind of pods is not what
    the other engine remembers.
    """

    current_search: Search | None

    def __init__(self, followed: PodEngine, configuration: Configuration, registry: Registry, host: ShadowHost) -> None:
        self._plugin_host = host
        self._kinds: WeakKeyDictionary[PodKind, PodKind] = WeakKeyDictionary()
        options = configuration.options
        super().__init__(
            followed.cluster,
            followed.clock,
            Host(),
            profiles_factory(configuration, ReadOnlyRegistry(registry, host.tables), host, ShadowHandle),
            seed=options.seed,
            layer_memory=options.layer_memory_bytes,
        )
        self.profile: Profile = next(iter(self.profiles.values()))
        self.preemption.follow(followed.preemption)
        self._last: Search | None = None

    def catch_up(self) -> None:
        """Apply what has happened to the plugins' sources and cached answers."""
        for message in self.inbox.drain():
            self._apply(message)
        for update in self.sources.expire(self.clock.now()) if self.sources else ():
            self.on_source_update(update)

    def decide_otherwise(
        self, earlier: Attempt, start_index: int, node: str, nominated: str
    ) -> tuple[Search | None, Decision | None]:
        """Decide an attempt again, which began its search there; no Decision if it finds the same node.

        Among equally good nodes it takes that one, or the one where the other attempt has found victims.
        """
        self.rotation.next_start_index = start_index
        queued = self.twin(earlier.queued)
        trace = AttemptTrace(queued.pod, earlier.trace.attempt, earlier.trace.sample_value)
        attempt = self.dry_attempt(self.profile, queued, trace, node or nominated)
        try:
            search, outcome = run_sync(self.find_node(attempt, self._last))
        except PluginError as error:
            self._last = None
            return None, attempt.fail_in_plugin(error)[0]
        self._last = search
        if isinstance(outcome, ScheduleResult):
            return search, None if outcome.node == node else attempt.decision(outcome)
        if isinstance(outcome, FitError):
            return search, run_sync(attempt.run_post_filter(search, outcome))[0]
        return search, attempt.failed(outcome)[0]

    def find_node(self, attempt: Attempt, last: Search | None) -> Suspendable[tuple[Search, Outcome]]:
        found = yield from super().find_node(attempt, last)
        self.roll_back_what_ifs()
        return found

    def roll_back_what_ifs(self) -> None:
        self._plugin_host.roll_back()

    def end_run(self) -> None:
        """Repeat the last search no more: what follows are other pods, or other tables."""
        self._last = self.current_search = None

    def twin(self, queued: QueuedPod) -> QueuedPod:
        """Return a queued pod with this engine's view of the pod."""
        twin = QueuedPod(self._twin(queued.pod), queued.timestamp)
        twin.attempts, twin.initial_attempt, twin.requeued_by = (
            queued.attempts,
            queued.initial_attempt,
            queued.requeued_by,
        )
        return twin

    def _twin(self, pod: PendingPod) -> PendingPod:
        kind = self._kinds.get(pod.kind)
        if kind is None:
            kind = self._kinds[pod.kind] = PodKind()
        return pod.twin(kind)

    def request(self, message: Message) -> None:
        if isinstance(message, AnswersInvalidated):
            self.offer(message)

    def drop_answers(self, node_names: tuple[str, ...]) -> None:
        for cache in self._plan_caches.values():
            cache.clear()  # to log the rows as changed would concern all profiles
