"""Who is making room: the pods whose victims are being sent away, and whom that keeps from being tried."""

from __future__ import annotations

from collections.abc import Mapping

from kframework.state.pods import PodInfo


class _Preemption:
    """The attempt that chose the victims, and the victim that is sent away last, once it is its turn."""

    __slots__ = ("attempt", "last_victim")

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self.last_victim = ""


class Preempting:
    """The preemptions under way, by the uid of the preemptor.

    A preemptor that was let through early may have begun another one: reports on the older one, known by its attempt,
    count no more.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, _Preemption] = {}

    def begin(self, uid: str, attempt: int) -> None:
        """Note that the victims of this preemptor are being sent away."""
        self._under_way[uid] = _Preemption(attempt)

    def last_victim(self, uid: str, attempt: int, victim: str) -> None:
        """Note that all victims but this one have been sent away, and that this one is next."""
        preemption = self._under_way.get(uid)
        if preemption is not None and preemption.attempt == attempt:
            preemption.last_victim = victim

    def end(self, uid: str, attempt: int) -> bool:
        """Note that no more victims will be sent away; tell whether this preemption was the preemptor's latest."""
        preemption = self._under_way.get(uid)
        if preemption is None or preemption.attempt != attempt:
            return False
        del self._under_way[uid]
        return True

    def holds_back(self, uid: str, pods: Mapping[str, PodInfo]) -> bool:
        """Return whether it is too early to try this pod again; `pods` are those on nodes, by uid.

        It is not once the last victim is going or gone: from then on the end of a victim must find the pod awake.
        """
        preemption = self._under_way.get(uid)
        if preemption is None:
            return False
        if not preemption.last_victim:
            return True
        victim = pods.get(preemption.last_victim)
        return victim is not None and not victim.terminating

    def __len__(self) -> int:
        return len(self._under_way)

    def __repr__(self) -> str:
        return f"<Preempting {len(self)} preemptions under way>"
