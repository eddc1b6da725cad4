"""What a pod waits for: where it is, until when, and which events would wake it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.points import run_pre_enqueue
from kframework.core.runtime.profile import Profile
from kframework.explain.explanation import State, Waiting, Waker
from kframework.framework.events import ActionType, ClusterEvent
from kframework.state.queued_pod import QueuedPod
from kframework.state.waiting import ReservedPod


def state_of(engine: PodEngine, uid: str) -> State:
    """Say where a pod of this scheduler is on its way to a node."""
    pending = engine.handlers.pending.get(uid)
    if uid in engine.cluster.pods:
        if uid not in engine.cluster.assumed:
            return State.BOUND
        reserved = engine.cluster.waiting.get(uid)
        return State.PERMIT if reserved is not None and reserved.verdict is None else State.BINDING
    if pending is None:
        return State.GONE
    if pending.terminating:
        return State.TERMINATING
    place = engine.queue.place_of(uid)
    return State(place) if place else State.IN_FLIGHT


def waiting(engine: PodEngine, uid: str, state: State) -> Waiting | None:
    """Say what a pod in this state waits for; None if for nothing that this scheduler knows of.

    A gate is asked again, so call it inside an evaluation's `aside`.
    """
    if state in (State.PERMIT, State.BINDING):
        reserved = engine.cluster.waiting.get(uid)
        return None if reserved is None else _binding(reserved)
    queued = engine.queue.get(uid)
    if queued is None or state is State.TERMINATING:
        return None
    profile = engine.profiles[queued.pod.scheduler_name]
    match state:
        case State.ACTIVE:
            return Waiting(queued_at=queued.timestamp, active=engine.queue.pending()["active"])
        case State.BACKOFF:
            until = engine.queue.resting_until(queued)
            return Waiting(queued_at=queued.timestamp, until=until, held_by=tuple(sorted(queued.rejectors)))
        case State.GATED:
            return _gated(engine, profile, queued)
        case _:
            return Waiting(
                queued_at=queued.timestamp,
                retried_at=engine.queue.flushed_at(queued),
                held_by=tuple(sorted(queued.rejectors)),
                wakers=_wakers(profile, sorted(queued.rejectors)),
            )


def _binding(reserved: ReservedPod) -> Waiting | None:
    hook, asked = reserved.asked
    if not asked:
        return None
    since = min(asked.values())
    return Waiting(queued_at=since, until=reserved.deadline, held_by=tuple(asked), hook=hook)


def _gated(engine: PodEngine, profile: Profile, queued: QueuedPod) -> Waiting:
    status = run_pre_enqueue(profile, queued.pod)
    return Waiting(
        queued_at=queued.timestamp,
        held_by=(queued.gating_plugin,),
        why=status.message if status is not None else "",
        wakers=_wakers(profile, [queued.gating_plugin]),
    )


def _wakers(profile: Profile, plugins: Iterable[str]) -> tuple[Waker, ...]:
    of = {source.key: f"source {source.name}" for sources in profile.sources.values() for source in sources}
    return tuple(Waker(plugin, _events(profile.events.get(plugin, ()), of)) for plugin in plugins)


def _events(registrations: Iterable[ClusterEvent], names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return what is registered by resource, some of which have better names; all updates together are one `update`."""
    actions: dict[str, ActionType] = {}
    for registration in registrations:
        resource = names.get(registration.resource, registration.resource)
        actions[resource] = actions.get(resource, ActionType(0)) | registration.action
    return {resource: tuple(_names(action)) for resource, action in actions.items()}


def _names(action: ActionType) -> list[str]:
    if action & ActionType.UPDATE == ActionType.UPDATE:
        kept = [each for each in (ActionType.ADD, ActionType.DELETE) if each & action]
        return [*(each.name.lower() for each in kept if each.name), "update"]
    return [each.name.lower() for each in action if each.name]
