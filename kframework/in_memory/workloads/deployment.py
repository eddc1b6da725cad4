"""The Deployment controller: creates a replica set for each template, and scales it up and the old ones down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.clock import Clock, rfc3339, seconds_of
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, key_of
from kframework.in_memory.kind_store import Change
from kframework.in_memory.workloads.dependents import (
    Dependents,
    can_create_pods,
)
from kframework.in_memory.workloads.replica_set import desired_replicas
from kframework.in_memory.workloads.revisions import (
    DESIRED,
    REVISION,
    available_count,
    build_replica_set,
    find_new_replica_set,
    is_rolling,
    max_unavailable,
    new_replica_count,
    old_replica_counts,
    proportional_sizes,
    replica_count,
    revision_of,
    with_deployment_annotations,
    with_replicas,
)
from kframework.objects import ApiObject, Deployment, DeploymentStatus, Pod, ReplicaSet, WorkloadCondition

#: The default number of old replica sets that are kept.
_DEFAULT_LIMIT = 10


class _Rollout(NamedTuple):
    """A deployment with its replica sets, the old ones sorted by age."""

    deployment: Deployment
    new: ReplicaSet | None
    old: list[ReplicaSet]

    @property
    def replica_sets(self) -> list[ReplicaSet]:
        return [*self.old, self.new] if self.new is not None else self.old

    @property
    def active(self) -> list[ReplicaSet]:
        return [each for each in self.replica_sets if desired_replicas(each) > 0]


class DeploymentController(ControlLoop):
    """Rolls out, scales and pauses deployments."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Deployment, ReplicaSet, Pod)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._replica_sets: Dependents[ReplicaSet] = Dependents(cluster, ReplicaSet)
        self._pods: Dependents[Pod] = Dependents(cluster, Pod)

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case Deployment() as deployment:
                yield key_of(deployment)
            case ReplicaSet():
                yield from self._replica_sets.affected_keys(change, Deployment)
            case Pod() as pod:
                self._pods.index(change)
                owner = pod.metadata.controlling_owner
                # A deployment may wait for the deletion of all its old pods.
                if (change.new is None or has_ended(pod)) and owner is not None and owner.kind == "ReplicaSet":
                    replica_set = self._cluster.find(ReplicaSet, owner.name, pod.metadata.namespace)
                    owner = replica_set.metadata.controlling_owner if replica_set is not None else None
                    if owner is not None and owner.kind == "Deployment":
                        yield pod.metadata.namespace, owner.name

    def _reconcile(self, key: Key) -> None:
        deployment = self._cluster.find(Deployment, key[1], key[0])
        if deployment is None or not can_create_pods(deployment):
            return
        owned = self._replica_sets.claim(deployment)
        owned.sort(key=lambda each: (each.metadata.creation_timestamp or "", revision_of(each)))
        new = find_new_replica_set(deployment, owned)
        rollout = _Rollout(deployment, new, [each for each in owned if each is not new])
        if deployment.metadata.deletion_timestamp is not None:
            self._sync_status(rollout)
            return
        rollout = self._sync_paused_condition(rollout)
        # Replica sets are annotated with the number of pods desired when they were last reconciled.
        annotated = {each.metadata.annotations.get(DESIRED) for each in rollout.active}
        is_rescaled = not annotated <= {None, str(desired_replicas(deployment))}
        if deployment.spec.paused or is_rescaled:
            rollout = self._sync_revision(rollout)
            rollout = self._scale_to(rollout, self._scaled_sizes(rollout))
            if deployment.spec.paused:
                self._clean_up(rollout)
            self._sync_status(rollout)
        elif is_rolling(deployment):
            self._roll_out(self._ensure_new_replica_set(rollout))
        else:
            self._recreate(rollout)

    def _sync_revision(self, rollout: _Rollout) -> _Rollout:
        """Number the new replica set, if there is one, and write its number to the deployment."""
        deployment, new, old = rollout
        if new is None:
            return rollout
        new = with_deployment_annotations(new, deployment, max(map(revision_of, old), default=0) + 1)
        new = replace(new, spec=replace(new.spec, min_ready_seconds=deployment.spec.min_ready_seconds))
        new = self._cluster.replace(new)
        return _Rollout(self._set_revision(deployment, new), new, old)

    def _ensure_new_replica_set(self, rollout: _Rollout) -> _Rollout:
        deployment, new, old = rollout
        if new is not None:
            deployment, new, old = self._sync_revision(rollout)
            if progress_deadline(deployment) is not None and progressing_condition(deployment.status) is None:
                message = f'Found new replica set "{new.metadata.name}"' if new is not None else ""
                deployment = self._set_progressing(deployment, "FoundNewReplicaSet", message)
            return _Rollout(deployment, new, old)
        replica_set = build_replica_set(deployment, max(map(revision_of, old), default=0) + 1)
        existing = self._cluster.find(ReplicaSet, replica_set.metadata.name, replica_set.metadata.namespace)
        if existing is not None:  # it has another owner
            status = replace(deployment.status, collision_count=(deployment.status.collision_count or 0) + 1)
            deployment = self._cluster.replace(replace(deployment, status=status))
            replica_set = build_replica_set(deployment, revision_of(replica_set))
        new = self._cluster.add(with_replicas(replica_set, deployment, new_replica_count(deployment, old, 0)))
        if progress_deadline(deployment) is not None:
            message = f'Created new replica set "{new.metadata.name}"'
            deployment = self._set_progressing(deployment, "NewReplicaSetCreated", message)
        return _Rollout(self._set_revision(deployment, new), new, old)

    def _set_progressing(self, deployment: Deployment, reason: str, message: str, status: str = "True") -> Deployment:
        condition = status, reason, message
        updated = _with_progressing(deployment.status, condition, self._clock.now(), renew=True)
        return self._cluster.replace(replace(deployment, status=updated))

    def _set_revision(self, deployment: Deployment, new: ReplicaSet) -> Deployment:
        annotations = deployment.metadata.annotations | {REVISION: new.metadata.annotations.get(REVISION, "")}
        metadata = replace(deployment.metadata, annotations=annotations)
        return self._cluster.replace(replace(deployment, metadata=metadata))

    def _sync_paused_condition(self, rollout: _Rollout) -> _Rollout:
        """Set the condition of a paused or resumed rollout; while it is paused, its deadline does not run."""
        deployment = rollout.deployment
        condition = progressing_condition(deployment.status)
        if progress_deadline(deployment) is None or (
            condition is not None and condition.reason == "ProgressDeadlineExceeded"
        ):
            return rollout
        is_paused = condition is not None and condition.reason == "DeploymentPaused"
        if bool(deployment.spec.paused) == is_paused:
            return rollout
        reason, message = "DeploymentPaused", "Deployment is paused"
        if is_paused:
            reason, message = "DeploymentResumed", "Deployment is resumed"
        deployment = self._set_progressing(deployment, reason, message, "Unknown")
        return rollout._replace(deployment=deployment)

    def _scaled_sizes(self, rollout: _Rollout) -> dict[str, int]:
        deployment, new, old = rollout
        total, active = desired_replicas(deployment), rollout.active
        if len(active) <= 1:
            latest = active[0] if active else new or (old[-1] if old else None)
            return {} if latest is None else {latest.metadata.name: total}
        if new is not None and desired_replicas(new) == new.status.available_replicas == total:
            if new.metadata.annotations.get(DESIRED) == str(total):
                return {each.metadata.name: 0 for each in old}
        return proportional_sizes(deployment, active) if is_rolling(deployment) else {}

    def _scale_to(self, rollout: _Rollout, sizes: Mapping[str, int]) -> _Rollout:
        def resize(each: ReplicaSet) -> ReplicaSet:
            size = sizes.get(each.metadata.name)
            return each if size is None else self._cluster.replace(with_replicas(each, rollout.deployment, size))

        new = resize(rollout.new) if rollout.new is not None else None
        return _Rollout(rollout.deployment, new, [resize(each) for each in rollout.old])

    def _roll_out(self, rollout: _Rollout) -> None:
        """Scale up the new replica set; if that is not possible, scale down the old ones."""
        deployment, new, old = rollout
        assert new is not None
        size, total = desired_replicas(new), desired_replicas(deployment)
        grown = total if size > total else new_replica_count(deployment, rollout.replica_sets, size)
        sizes = {new.metadata.name: grown} if grown != size else old_replica_counts(deployment, new, old)
        rollout = self._scale_to(rollout, sizes)
        self._clean_up_if_complete(rollout)
        self._sync_rollout_status(rollout)

    def _recreate(self, rollout: _Rollout) -> None:
        """Delete all old pods, and create new ones after that."""
        if any(desired_replicas(each) for each in rollout.old):
            rollout = self._sync_revision(rollout)
            rollout = self._scale_to(rollout, {each.metadata.name: 0 for each in rollout.old})
        elif not any(not has_ended(pod) for each in rollout.old for pod in self._pods.owned_by(each)):
            rollout = self._ensure_new_replica_set(rollout)
            if rollout.new is not None and desired_replicas(rollout.new) != desired_replicas(rollout.deployment):
                rollout = self._scale_to(rollout, {rollout.new.metadata.name: desired_replicas(rollout.deployment)})
            self._clean_up_if_complete(rollout)
        self._sync_rollout_status(rollout)

    def _clean_up_if_complete(self, rollout: _Rollout) -> None:
        if is_complete(rollout.deployment, calculate_status(rollout, self._clock.now())):
            self._clean_up(rollout)

    def _clean_up(self, rollout: _Rollout) -> None:
        limit = rollout.deployment.spec.revision_history_limit
        kept = _DEFAULT_LIMIT if limit is None else limit
        candidates = [each for each in rollout.old if each.metadata.deletion_timestamp is None]
        for each in sorted(candidates, key=revision_of)[: max(0, len(candidates) - kept)]:
            if not desired_replicas(each) and not each.status.replicas:
                self._cluster.remove_object(each)

    def _sync_status(self, rollout: _Rollout) -> None:
        status = calculate_status(rollout, self._clock.now())
        self._cluster.replace(replace(rollout.deployment, status=status))

    def _sync_rollout_status(self, rollout: _Rollout) -> None:
        now = self._clock.now()
        status, seconds = progress_status(rollout, calculate_status(rollout, now), now)
        self._cluster.replace(replace(rollout.deployment, status=status))
        if seconds is not None:
            self._queue.add_after(key_of(rollout.deployment), seconds)


_AVAILABLE = "NewReplicaSetAvailable"
_TIMED_OUT = "ProgressDeadlineExceeded"
#: The largest number means no deadline.
_NO_DEADLINE = 2**31 - 1


def progress_deadline(deployment: Deployment) -> int | None:
    """Return how many seconds a rollout may go without progress; None means no limit."""
    seconds = deployment.spec.progress_deadline_seconds
    return None if seconds in (None, _NO_DEADLINE) else seconds


def calculate_status(rollout: _Rollout, now: float) -> DeploymentStatus:
    """Count the pods of a deployment, and set its Available condition."""
    deployment, new, replica_sets = rollout.deployment, rollout.new, rollout.replica_sets
    available = available_count(replica_sets)
    if available >= desired_replicas(deployment) - max_unavailable(deployment):
        condition = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        condition = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in replica_sets),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(each.status.ready_replicas for each in replica_sets),
        available_replicas=available,
        unavailable_replicas=max(0, replica_count(replica_sets) - available),
        terminating_replicas=sum(each.status.terminating_replicas or 0 for each in replica_sets),
        collision_count=deployment.status.collision_count,
        conditions=_with_condition(deployment.status.conditions, "Available", condition, now),
    )


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    total = desired_replicas(deployment)
    counts = status.updated_replicas, status.replicas, status.available_replicas
    return counts == (total, total, total) and status.observed_generation >= deployment.metadata.generation


def progress_status(rollout: _Rollout, status: DeploymentStatus, now: float) -> tuple[DeploymentStatus, float | None]:
    """Set the Progressing condition of a calculated status: complete, progressing, or timed out.

    Also return the seconds until the deadline passes if nothing changes.
    """
    deployment, new, _ = rollout
    deadline = progress_deadline(deployment)
    if deadline is None:
        rest = tuple(each for each in status.conditions if each.type != "Progressing")
        return replace(status, conditions=rest), None
    what = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{deployment.metadata.name}"'
    condition = progressing_condition(status)
    if condition is not None and condition.reason == _AVAILABLE and status.replicas == status.updated_replicas:
        return status, None
    if is_complete(deployment, status):
        return _with_progressing(status, ("True", _AVAILABLE, f"{what} has successfully progressed."), now), None
    if _has_progressed(deployment.status, status):
        updated = ("True", "ReplicaSetUpdated", f"{what} is progressing.")
        return _with_progressing(status, updated, now, renew=True), deadline
    if condition is None or condition.reason in (_AVAILABLE, _TIMED_OUT):
        return status, None
    passes = seconds_of(condition.last_update_time or rfc3339(now)) + deadline
    if passes <= now:
        return _with_progressing(status, ("False", _TIMED_OUT, f"{what} has timed out progressing."), now), None
    return status, passes - now


def progressing_condition(status: DeploymentStatus) -> WorkloadCondition | None:
    return next((each for each in status.conditions if each.type == "Progressing"), None)


def _has_progressed(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    return (
        new.updated_replicas > old.updated_replicas
        or new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        or new.ready_replicas > old.ready_replicas
        or new.available_replicas > old.available_replicas
    )


def _with_progressing(
    status: DeploymentStatus, condition: tuple[str, str, str], now: float, renew: bool = False
) -> DeploymentStatus:
    return replace(status, conditions=_with_condition(status.conditions, "Progressing", condition, now, renew))


def _with_condition(
    conditions: tuple[WorkloadCondition, ...],
    name: str,
    condition: tuple[str, str, str],
    now: float,
    renew: bool = False,
) -> tuple[WorkloadCondition, ...]:
    """Set a condition; an unchanged one keeps its times, except its update time if `renew`."""
    old = next((each for each in conditions if each.type == name), None)
    if old is not None and (old.status, old.reason, old.message) == condition and not renew:
        return conditions
    text, (status, reason, message) = rfc3339(now), condition
    new = WorkloadCondition(
        type=name,
        status=status,
        last_update_time=text,
        last_transition_time=old.last_transition_time if old is not None and old.status == status else text,
        reason=reason,
        message=message,
    )
    return (*(each for each in conditions if each.type != name), new)
