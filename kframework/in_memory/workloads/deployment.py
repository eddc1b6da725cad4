"""The Deployment controller: a replica set for each template, and pods of one in the place of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.clock import Clock, rfc3339, seconds_of
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, key_of
from kframework.in_memory.kind_store import Change
from kframework.in_memory.workloads.dependents import (
    Dependents,
    controller_of,
    makes_pods,
    selector_of,
)
from kframework.in_memory.workloads.replica_set import wanted
from kframework.in_memory.workloads.revisions import (
    DESIRED,
    REVISION,
    annotated,
    available_of,
    is_rolling,
    made_for,
    max_unavailable,
    new_among,
    proportional_sizes,
    revision_of,
    size_of_new,
    sized,
    sizes_of_old,
    total_of,
)
from kframework.objects import ApiObject, Deployment, DeploymentStatus, Pod, ReplicaSet, WorkloadCondition

#: The default number of replica sets without pods that are kept.
_HISTORY = 10


class _Rollout(NamedTuple):
    """A deployment with its replica sets, the old ones by their age."""

    deployment: Deployment
    new: ReplicaSet | None
    old: list[ReplicaSet]

    @property
    def every(self) -> list[ReplicaSet]:
        return [*self.old, self.new] if self.new is not None else self.old

    @property
    def active(self) -> list[ReplicaSet]:
        return [each for each in self.every if wanted(each) > 0]


class DeploymentController(ControlLoop):
    """Rolls out, scales and pauses deployments."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Deployment, ReplicaSet, Pod)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._replica_sets: Dependents[ReplicaSet] = Dependents(cluster, ReplicaSet)
        self._pods: Dependents[Pod] = Dependents(cluster, Pod)

    def _touched(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case Deployment() as deployment:
                yield key_of(deployment)
            case ReplicaSet():
                yield from self._replica_sets.touched(change, Deployment)
            case Pod() as pod:
                self._pods.file(change)
                owner = controller_of(pod)
                # A deployment may wait for all its old pods to be gone.
                if (change.new is None or has_ended(pod)) and owner is not None and owner.kind == "ReplicaSet":
                    replica_set = self._cluster.find(ReplicaSet, owner.name, pod.metadata.namespace)
                    above = controller_of(replica_set) if replica_set is not None else None
                    if above is not None and above.kind == "Deployment":
                        yield pod.metadata.namespace, above.name

    def _reconcile(self, key: Key) -> None:
        deployment = self._cluster.find(Deployment, key[1], key[0])
        if deployment is None:
            return
        selector = selector_of(deployment.spec.selector)
        if not makes_pods(deployment, deployment.spec.template, selector):
            return
        owned = self._replica_sets.claimed(deployment, selector, lambda each: True)
        owned.sort(key=lambda each: (each.metadata.creation_timestamp or "", revision_of(each)))
        new = new_among(deployment, owned)
        rollout = _Rollout(deployment, new, [each for each in owned if each is not new])
        if deployment.metadata.deletion_timestamp is not None:
            self._tell_counts(rollout)
            return
        rollout = self._told_of_pause(rollout)
        # Its replica sets have the number of pods it wanted when they were last reconciled.
        said = {each.metadata.annotations.get(DESIRED) for each in rollout.active}
        is_rescaled = not said <= {None, str(wanted(deployment))}
        if deployment.spec.paused or is_rescaled:
            rollout = self._with_revision(rollout)
            rollout = self._resize(rollout, self._scale(rollout))
            if deployment.spec.paused:
                self._clean_up(rollout)
            self._tell_counts(rollout)
        elif is_rolling(deployment):
            self._roll(self._with_new(rollout))
        else:
            self._recreate(rollout)

    def _with_revision(self, rollout: _Rollout) -> _Rollout:
        """Number the new replica set, if there is one, and write its number to the deployment."""
        deployment, new, old = rollout
        if new is None:
            return rollout
        new = annotated(new, deployment, max(map(revision_of, old), default=0) + 1)
        new = replace(new, spec=replace(new.spec, min_ready_seconds=deployment.spec.min_ready_seconds))
        new = self._cluster.replace(new)
        return _Rollout(self._revised(deployment, new), new, old)

    def _with_new(self, rollout: _Rollout) -> _Rollout:
        """Create the replica set of a new template."""
        deployment, new, old = rollout
        if new is not None:
            deployment, new, old = self._with_revision(rollout)
            if deadline_of(deployment) is not None and progressing(deployment.status) is None:
                message = f'Found new replica set "{new.metadata.name}"' if new is not None else ""
                deployment = self._told(deployment, "FoundNewReplicaSet", message)
            return _Rollout(deployment, new, old)
        made = made_for(deployment, max(map(revision_of, old), default=0) + 1)
        found = self._cluster.find(ReplicaSet, made.metadata.name, made.metadata.namespace)
        if found is not None:  # it has another owner
            status = replace(deployment.status, collision_count=(deployment.status.collision_count or 0) + 1)
            deployment = self._cluster.replace(replace(deployment, status=status))
            made = made_for(deployment, revision_of(made))
        new = self._cluster.add(sized(made, deployment, size_of_new(deployment, old, 0)))
        if deadline_of(deployment) is not None:
            message = f'Created new replica set "{new.metadata.name}"'
            deployment = self._told(deployment, "NewReplicaSetCreated", message)
        return _Rollout(self._revised(deployment, new), new, old)

    def _told(self, deployment: Deployment, reason: str, message: str, status: str = "True") -> Deployment:
        told = _telling(deployment.status, (status, reason, message), self._clock.now(), anew=True)
        return self._cluster.replace(replace(deployment, status=told))

    def _revised(self, deployment: Deployment, new: ReplicaSet) -> Deployment:
        annotations = deployment.metadata.annotations | {REVISION: new.metadata.annotations.get(REVISION, "")}
        return self._cluster.replace(
            replace(deployment, metadata=replace(deployment.metadata, annotations=annotations))
        )

    def _told_of_pause(self, rollout: _Rollout) -> _Rollout:
        """Set the condition for a paused or resumed rollout: while paused its deadline does not run."""
        deployment = rollout.deployment
        told = progressing(deployment.status)
        if deadline_of(deployment) is None or (told is not None and told.reason == "ProgressDeadlineExceeded"):
            return rollout
        is_paused = told is not None and told.reason == "DeploymentPaused"
        if bool(deployment.spec.paused) == is_paused:
            return rollout
        change = "resumed" if is_paused else "paused"
        deployment = self._told(deployment, f"Deployment{change.title()}", f"Deployment is {change}", "Unknown")
        return rollout._replace(deployment=deployment)

    def _scale(self, rollout: _Rollout) -> dict[str, int]:
        """Return the sizes of the replica sets of a deployment that wants another number of pods, or is paused."""
        deployment, new, old = rollout
        total, active = wanted(deployment), rollout.active
        if len(active) <= 1:
            latest = active[0] if active else new or (old[-1] if old else None)
            return {} if latest is None else {latest.metadata.name: total}
        if new is not None and wanted(new) == new.status.available_replicas == total:
            if new.metadata.annotations.get(DESIRED) == str(total):
                return {each.metadata.name: 0 for each in old}
        return proportional_sizes(deployment, active) if is_rolling(deployment) else {}

    def _resize(self, rollout: _Rollout, sizes: Mapping[str, int]) -> _Rollout:
        def resized(each: ReplicaSet) -> ReplicaSet:
            size = sizes.get(each.metadata.name)
            return each if size is None else self._cluster.replace(sized(each, rollout.deployment, size))

        new = resized(rollout.new) if rollout.new is not None else None
        return _Rollout(rollout.deployment, new, [resized(each) for each in rollout.old])

    def _roll(self, rollout: _Rollout) -> None:
        """Scale up the new replica set; if that is not possible, scale down the old ones."""
        deployment, new, old = rollout
        assert new is not None
        size, total = wanted(new), wanted(deployment)
        grown = total if size > total else size_of_new(deployment, rollout.every, size) if size < total else size
        if grown != size:
            rollout = self._resize(rollout, {new.metadata.name: grown})
        else:
            sizes, before = sizes_of_old(deployment, new, old), {each.metadata.name: wanted(each) for each in old}
            rollout = self._resize(rollout, {name: size for name, size in sizes.items() if size != before[name]})
        self._clean_up_when_complete(rollout)
        self._tell_progress(rollout)

    def _recreate(self, rollout: _Rollout) -> None:
        """Delete all old pods, and create new ones once they are gone."""
        if any(wanted(each) for each in rollout.old):
            rollout = self._with_revision(rollout)
            rollout = self._resize(rollout, {each.metadata.name: 0 for each in rollout.old})
        elif not any(not has_ended(pod) for each in rollout.old for pod in self._pods.of(each)):
            rollout = self._with_new(rollout)
            if rollout.new is not None and wanted(rollout.new) != wanted(rollout.deployment):
                rollout = self._resize(rollout, {rollout.new.metadata.name: wanted(rollout.deployment)})
            self._clean_up_when_complete(rollout)
        self._tell_progress(rollout)

    def _clean_up_when_complete(self, rollout: _Rollout) -> None:
        if is_complete(rollout.deployment, counted(*rollout[:2], rollout.every, self._clock.now())):
            self._clean_up(rollout)

    def _clean_up(self, rollout: _Rollout) -> None:
        """Delete the oldest revisions, except those that the history keeps."""
        limit = rollout.deployment.spec.revision_history_limit
        kept = _HISTORY if limit is None else limit
        alive = [each for each in rollout.old if each.metadata.deletion_timestamp is None]
        for each in sorted(alive, key=revision_of)[: max(0, len(alive) - kept)]:
            if not wanted(each) and not each.status.replicas:
                self._cluster.remove(ReplicaSet, each.metadata.name, each.metadata.namespace, uid=each.metadata.uid)

    def _tell_counts(self, rollout: _Rollout) -> None:
        deployment, new, _ = rollout
        status = counted(deployment, new, rollout.every, self._clock.now())
        self._cluster.replace(replace(deployment, status=status))

    def _tell_progress(self, rollout: _Rollout) -> None:
        deployment, new, _ = rollout
        status = counted(deployment, new, rollout.every, self._clock.now())
        status, seconds = progressed(deployment, new, status, self._clock.now())
        self._cluster.replace(replace(deployment, status=status))
        if seconds is not None:
            self._queue.add_after(key_of(deployment), seconds)


_AVAILABLE = "NewReplicaSetAvailable"
_TIMED_OUT = "ProgressDeadlineExceeded"
#: The largest number means no deadline.
_NO_DEADLINE = 2**31 - 1


def deadline_of(deployment: Deployment) -> int | None:
    """Return how many seconds a rollout may go without progress; None if any."""
    seconds = deployment.spec.progress_deadline_seconds
    return None if seconds in (None, _NO_DEADLINE) else seconds


def counted(
    deployment: Deployment, new: ReplicaSet | None, every: Iterable[ReplicaSet], now: float
) -> DeploymentStatus:
    """Count the pods of a deployment, and set the condition for whether there are enough."""
    every = list(every)
    available = available_of(every)
    if available >= wanted(deployment) - max_unavailable(deployment):
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
    total = wanted(deployment)
    counts = status.updated_replicas, status.replicas, status.available_replicas
    return counts == (total, total, total) and status.observed_generation >= deployment.metadata.generation


def progressed(
    deployment: Deployment, new: ReplicaSet | None, status: DeploymentStatus, now: float
) -> tuple[DeploymentStatus, float | None]:
    """Set in a counted status whether the rollout is complete, progressing, or has timed out.

    The seconds are those until its deadline passes if nothing changes.
    """
    deadline = deadline_of(deployment)
    if deadline is None:
        rest = tuple(each for each in status.conditions if each.type != "Progressing")
        return replace(status, conditions=rest), None
    what = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{deployment.metadata.name}"'
    told = progressing(status)
    if told is not None and told.reason == _AVAILABLE and status.replicas == status.updated_replicas:
        return status, None
    if is_complete(deployment, status):
        said = ("True", _AVAILABLE, f"{what} has successfully progressed.")
        return _telling(status, said, now), None
    if _comes_on(deployment.status, status):
        said = ("True", "ReplicaSetUpdated", f"{what} is progressing.")
        return _telling(status, said, now, anew=True), deadline
    if told is None or told.reason in (_AVAILABLE, _TIMED_OUT):
        return status, None
    passes = seconds_of(told.last_update_time or rfc3339(now)) + deadline
    if passes <= now:
        return _telling(status, ("False", _TIMED_OUT, f"{what} has timed out progressing."), now), None
    return status, passes - now


def progressing(status: DeploymentStatus) -> WorkloadCondition | None:
    """Return the Progressing condition of a status."""
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
    """Set a condition; an unchanged one keeps its times, except its update time if `anew`."""
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
