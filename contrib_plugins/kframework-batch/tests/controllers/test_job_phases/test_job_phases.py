"""Which phase follows which, row by row as Volcano's states have it."""

from __future__ import annotations

import pytest
from kframework_batch.controllers.job_admission import with_defaults
from kframework_batch.controllers.job_phases import INVALID, invalid_status, status_after_action, updated_status
from kframework_batch.controllers.job_pods import PodPhaseCounts
from kframework_batch.controllers.job_policies import JobAction
from kframework_batch.objects import Job, JobSpec, JobState, JobStatus, TaskSpec
from msgspec.structs import replace

from kframework.objects import ObjectMeta

NOW = "2026-01-01T00:00:00Z"
#: Two tasks of two pods each; the first must have both.
SPEC = JobSpec(tasks=(TaskSpec(name="a", replicas=2), TaskSpec(name="b", replicas=2, min_available=1)))


def job(phase: str, spec: JobSpec = SPEC, **status: int) -> Job:
    state = JobState(phase=phase, reason="why", message="so", last_transition_time="before")
    whole = Job(metadata=ObjectMeta(name="j"), spec=spec, status=replace(JobStatus(state=state), **status))
    return with_defaults(whole, "volcano")


def tally(*, a: int = 0, b: int = 0, **counts: int) -> PodPhaseCounts:
    return PodPhaseCounts(**counts, succeeded=a + b, succeeded_of={"a": a, "b": b})


EMPTY = replace(SPEC, tasks=(TaskSpec(name="a", replicas=0), TaskSpec(name="b", replicas=0)))


@pytest.mark.parametrize(
    ("subject", "counts", "phase"),
    [
        (job(""), tally(), "Pending"),
        (job("Pending"), tally(running=2, pending=2), "Pending"),
        (job("Pending"), tally(running=2, a=1), "Running"),
        (job("Pending"), tally(running=1, failed=2), "Running"),
        (job("Running"), tally(running=3, pending=1), "Running"),
        (job("Running"), tally(running=2, pending=2), "Pending"),
        (job("Running"), tally(running=2, terminating=2), "Running"),
        (job("Running"), tally(a=2, b=2), "Completed"),
        (job("Running"), tally(a=2, b=1, failed=1), "Completed"),
        (job("Running"), tally(a=2, failed=2), "Failed"),
        (job("Running"), tally(a=1, b=2, failed=1), "Failed"),
        (job("Running", replace(SPEC, min_available=1)), tally(b=1, failed=3), "Completed"),
        (job("Running", replace(SPEC, min_available=1)), tally(failed=4), "Failed"),
        (job("Running"), tally(a=2, b=1, running=1), "Running"),
        (job("Running", replace(SPEC, min_success=2)), tally(a=1, b=1, running=2), "Completed"),
        (job("Running", replace(SPEC, min_success=4)), tally(a=2, b=1, failed=1), "Failed"),
        (job("Running", EMPTY), tally(), "Running"),
        (job("Restarting"), tally(terminating=4), "Restarting"),
        (job("Restarting"), tally(terminating=1), "Pending"),
        (job("Restarting"), tally(terminating=2), "Restarting"),
        (job("Aborting"), tally(terminating=1, failed=3), "Aborting"),
        (job("Aborting"), tally(failed=3), "Aborted"),
        (job("Completing"), tally(a=1), "Completed"),
        (job("Terminating"), tally(), "Terminated"),
        *((job(phase), tally(terminating=1), phase) for phase in ("Aborted", "Completed", "Terminated", "Failed")),
    ],
)
def test_next_phase_follows_from_the_pods(subject: Job, counts: PodPhaseCounts, phase: str) -> None:
    status = updated_status(subject, counts, NOW)
    assert status.state.phase == phase
    changed = phase != subject.status.state.phase
    assert status.state.last_transition_time == (NOW if changed else "before")
    assert (status.pending, status.running, status.terminating) == (
        counts.pending,
        counts.running,
        counts.terminating,
    )
    assert status.min_available == subject.spec.min_available


@pytest.mark.parametrize(
    ("subject", "counts", "reason", "message"),
    [
        (job("Aborting"), tally(), "why", "so"),
        (job("Restarting"), tally(), "", ""),
        (job("Pending"), tally(running=4), "", ""),
        (job("Pending"), tally(), "why", "so"),
    ],
)
def test_reason_of_ending_is_kept_after_the_end(
    subject: Job, counts: PodPhaseCounts, reason: str, message: str
) -> None:
    state = updated_status(subject, counts, NOW).state
    assert (state.reason, state.message) == (reason, message)


@pytest.mark.parametrize(
    ("action", "phase", "version", "retries"),
    [
        ("RestartJob", "Restarting", 1, 1),
        ("RestartTask", "Restarting", 0, 1),
        ("RestartPod", "Restarting", 0, 1),
        ("RestartPartition", "Restarting", 0, 1),
        ("AbortJob", "Aborting", 1, 0),
        ("CompleteJob", "Completing", 1, 0),
        ("TerminateJob", "Terminating", 1, 0),
    ],
)
def test_action_sets_phase(action: str, phase: str, version: int, retries: int) -> None:
    status = status_after_action(job("Running"), JobAction(action, "PodFailed", "pod x has failed"), NOW)
    assert status.state == JobState(
        phase=phase, reason="PodFailed", message=f"pod x has failed: {action}", last_transition_time=NOW
    )
    assert (status.version, status.retry_count) == (version, retries)


@pytest.mark.parametrize(
    ("action", "retries", "phase"),
    [
        ("RestartJob", 1, "Restarting"),
        ("RestartJob", 2, "Failed"),
        ("RestartPod", 2, "Failed"),
        ("AbortJob", 2, "Aborting"),
    ],
)
def test_job_fails_instead_of_exceeding_max_retry(action: str, retries: int, phase: str) -> None:
    status = status_after_action(job("Running", retry_count=retries), JobAction(action, "PodFailed", "no"), NOW)
    assert status.state.phase == phase
    assert ("maxRetry is 3" in status.state.message) == (phase == "Failed")


def test_invalid_new_job_fails_and_invalid_old_job_keeps_its_phase() -> None:
    assert invalid_status(JobStatus(), "no", NOW).state == JobState(
        phase="Failed", reason=INVALID, message="no", last_transition_time=NOW
    )
    status = invalid_status(job("Running", running=3).status, "no", NOW)
    assert (status.state.phase, status.state.message, status.running) == ("Running", "no", 3)
    repaired = updated_status(replace(job("Running"), status=status), tally(running=4), NOW)
    assert (repaired.state.phase, repaired.state.reason, repaired.state.message) == ("Running", "", "")
