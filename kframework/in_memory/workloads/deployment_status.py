"""What a deployment says of itself: how many pods it has, and whether its rollout comes on; pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from kframework.clock import rfc3339, seconds_of
from kframework.in_memory.workloads.rollout import available_of, max_unavailable, replicas, total_of
from kframework.objects import Deployment, DeploymentStatus, ReplicaSet, WorkloadCondition

_AVAILABLE = "NewReplicaSetAvailable"
_TIMED_OUT = "ProgressDeadlineExceeded"
#: Whoever wants no deadline says the largest number that there is.
_NO_DEADLINE = 2**31 - 1


class Progress(NamedTuple):
    """The status of a deployment, and after how many seconds its deadline passes if nothing changes until then."""

    status: DeploymentStatus
    seconds: float | None


def deadline_of(deployment: Deployment) -> int | None:
    """Return how many seconds a rollout may go without progress; None if any."""
    seconds = deployment.spec.progress_deadline_seconds
    return None if seconds in (None, _NO_DEADLINE) else seconds


def counted(
    deployment: Deployment, new: ReplicaSet | None, every: Iterable[ReplicaSet], now: float
) -> DeploymentStatus:
    """Count the pods of a deployment, and say whether there are as many as it needs."""
    every = list(every)
    available = available_of(every)
    if available >= replicas(deployment) - max_unavailable(deployment):
        said = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        said = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in every),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(each.status.ready_replicas for each in every),
        available_replicas=available,
        unavailable_replicas=max(0, total_of(every) - available),
        terminating_replicas=sum(each.status.terminating_replicas or 0 for each in every),
        collision_count=deployment.status.collision_count,
        conditions=_with(deployment.status.conditions, "Available", said, now),
    )


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Return whether all pods are new ones, and available."""
    total = replicas(deployment)
    counts = status.updated_replicas, status.replicas, status.available_replicas
    return counts == (total, total, total) and status.observed_generation >= deployment.metadata.generation


def progressed(deployment: Deployment, new: ReplicaSet | None, status: DeploymentStatus, now: float) -> Progress:
    """Say in a status that was counted whether the rollout is done, comes on, or has timed out."""
    deadline = deadline_of(deployment)
    if deadline is None:
        rest = tuple(each for each in status.conditions if each.type != "Progressing")
        return Progress(replace(status, conditions=rest), None)
    what = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{deployment.metadata.name}"'
    told = progressing(status)
    if told is not None and told.reason == _AVAILABLE and status.replicas == status.updated_replicas:
        return Progress(status, None)
    if is_complete(deployment, status):
        said = ("True", _AVAILABLE, f"{what} has successfully progressed.")
        return Progress(_telling(status, said, now), None)
    if _comes_on(deployment.status, status):
        status = _telling(status, ("True", "ReplicaSetUpdated", f"{what} is progressing."), now, anew=True)
        return Progress(status, deadline)
    if told is None or told.reason in (_AVAILABLE, _TIMED_OUT):
        return Progress(status, None)
    passes = seconds_of(told.last_update_time or rfc3339(now)) + deadline
    if passes <= now:
        return Progress(_telling(status, ("False", _TIMED_OUT, f"{what} has timed out progressing."), now), None)
    return Progress(status, passes - now)


def told_of(deployment: Deployment, reason: str, message: str, now: float, status: str = "True") -> DeploymentStatus:
    """Return the status of a deployment with another word about its progress."""
    return _telling(deployment.status, (status, reason, message), now, anew=True)


def progressing(status: DeploymentStatus) -> WorkloadCondition | None:
    """Return what a status says about progress."""
    return next((each for each in status.conditions if each.type == "Progressing"), None)


def _comes_on(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    return (
        new.updated_replicas > old.updated_replicas
        or new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        or new.ready_replicas > old.ready_replicas
        or new.available_replicas > old.available_replicas
    )


def _telling(status: DeploymentStatus, said: tuple[str, str, str], now: float, anew: bool = False) -> DeploymentStatus:
    return replace(status, conditions=_with(status.conditions, "Progressing", said, now, anew))


def _with(
    conditions: tuple[WorkloadCondition, ...], name: str, said: tuple[str, str, str], now: float, anew: bool = False
) -> tuple[WorkloadCondition, ...]:
    """Set a condition; what says the same as before keeps its times, unless its update counts `anew`."""
    old = next((each for each in conditions if each.type == name), None)
    if old is not None and (old.status, old.reason, old.message) == said and not anew:
        return conditions
    text, (status, reason, message) = rfc3339(now), said
    new = WorkloadCondition(
        type=name,
        status=status,
        last_update_time=text,
        last_transition_time=old.last_transition_time if old is not None and old.status == status else text,
        reason=reason,
        message=message,
    )
    return (*(each for each in conditions if each.type != name), new)
