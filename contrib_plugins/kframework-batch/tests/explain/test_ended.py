"""Jobs that have ended are explained by what the sessions say of them."""

from __future__ import annotations

import pytest
from kframework_batch.explain.explainer import explain_by_name, explain_ended_steps
from kframework_batch.explain.explanation import JobExplanation, format_explanation
from kframework_batch.explain.history import EndedJob, find_ended_job
from kframework_batch.objects import PodGroup
from kframework_batch.testing import Gang, Stage, make_gang, make_node
from msgspec.structs import replace

from kframework import ExplainError
from kframework.clock import rfc3339
from kframework.engine import run_to_end
from kframework.objects import OwnerReference, Pod

PLAIN = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]"

FULL = "0/1 nodes are available: 1 Insufficient cpu"


def owned(gang: Gang, owner: str) -> Gang:
    """Let a gang be that of a Job."""
    group, pods = gang
    reference = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name=owner, uid=f"job/{owner}")
    return replace(group, metadata=replace(group.metadata, owner_references=(reference,))), pods


def ended(*, pods_too: bool = False) -> Stage:
    """Let a gang wait for another one, run, succeed, and be gone, with its pods or without them."""
    gangs = [make_gang("first", 1, on=["n"]), owned(make_gang("train-123", 2), "train")]
    stage = Stage(PLAIN, nodes=[make_node("n", cpu=2)], gangs=gangs).session(2)
    stage.delete("first-0")
    stage.session(2)
    for name in ("train-123-0", "train-123-1"):
        pod = stage.objects[Pod, name]
        assert isinstance(pod, Pod)
        stage.put(replace(pod, status=replace(pod.status, phase="Succeeded")))
    stage.session()
    stage.delete("train-123", PodGroup)
    if pods_too:
        stage.delete("train-123-0")
        stage.delete("train-123-1")
    return stage.session(2)


def found(stage: Stage, name: str, namespace: str = "default") -> EndedJob | None:
    return run_to_end(find_ended_job(stage.accounts[::-1], namespace, name))


def explained(stage: Stage, name: str) -> JobExplanation:
    named = found(stage, name)
    assert named is not None
    return run_to_end(explain_ended_steps(stage.engine, stage.accounts[::-1], named))


@pytest.mark.parametrize("pods_too", [False, True], ids=["pods are left", "nothing is left"])
def test_ended_job_is_explained_from_beginning_to_end(pods_too: bool) -> None:
    stage = ended(pods_too=pods_too)
    said = run_to_end(explain_by_name(stage.engine, stage.accounts[::-1], "default", "train")).text
    first, left = stage.accounts[0].at, "none" if pods_too else "2 Succeeded"
    gone = rfc3339(stage.accounts[5].at)
    for line in (
        "Job:       Job default/train",
        f"Pod group: default/train-123, gone since {gone}",
        "Phase:     Completed",
        "Gang:      2 were needed",
        f"HISTORY since {rfc3339(first)}, each line until the next:",
        f"  - 0s, sessions 1 to 2: allocate: discarded; 1 of the 2 tasks that it needs had a place; {FULL}",
        "  - 2s, session 3: allocate: served; 2 of the 2 tasks that it needs had a place",
        "  - 3s, session 4: Running",
        "  - 4s, session 5: Completed: 2 Succeeded",
        f"  - 5s, session 6: its pod group was deleted; remaining tasks: {left}",
        f"TASKS: {'none are left' if pods_too else '2 Succeeded'}.",
    ):
        assert f"{line}\n" in said, said
    assert "HELP" not in said and "no pod group of this name" not in said


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("train", EndedJob("default/train-123")),
        ("train-123", EndedJob("default/train-123")),
        ("train-123-1", EndedJob("default/train-123", "default/train-123-1")),
        ("nobody", None),
    ],
)
def test_ended_job_is_found_by_group_owner_or_task(name: str, named: EndedJob | None) -> None:
    assert found(ended(pods_too=True), name) == named


def test_ended_job_is_found_in_its_namespace_only() -> None:
    assert found(ended(), "train", "elsewhere") is None


def test_explanation_of_deleted_task_has_the_session_that_placed_it() -> None:
    stage = ended(pods_too=True)
    told = explained(stage, "train-123-1")
    assert (told.session, [turn.action for turn in told.turns]) == ("3", ["allocate"])
    assert "      default/train-123-1 had room on n" in format_explanation(told)
    assert explained(ended(), "train-123-1").tasks[0].status == "Succeeded"


def test_history_is_shown_for_running_jobs_and_for_pending_jobs_in_wide_output() -> None:
    stage = Stage(PLAIN, nodes=[make_node("n", cpu=2)], gangs=[make_gang("train", 2), make_gang("large", 9)]).session(3)
    runs = run_to_end(explain_by_name(stage.engine, stage.accounts[::-1], "default", "train"))
    waits = run_to_end(explain_by_name(stage.engine, stage.accounts[::-1], "default", "large"))
    assert "  - 1s, session 2: Running\n" in runs.text
    assert "HISTORY" not in waits.text and "  - 0s, sessions 1 to 3: allocate: discarded" in waits.wide


def test_long_history_is_shortened_in_the_middle() -> None:
    stage = ended()
    told = explained(stage, "train")
    long = replace(told, history=told.history * 4)
    assert "\n  - and 8 more\n" in format_explanation(long)
    assert (
        format_explanation(long).count(", session") == 12
        and format_explanation(long, wide=True).count(", session") == 20
    )


def test_job_with_recreated_group_has_not_ended() -> None:
    stage = ended()
    group, _ = make_gang("train-123", 2)
    stage.put(group)
    stage.session()
    text = run_to_end(explain_by_name(stage.engine, stage.accounts[::-1], "default", "train-123")).text
    assert "gone since" not in text and "its pod group was deleted" in text


def test_forgotten_job_is_not_explained() -> None:
    stage = ended(pods_too=True)
    with pytest.raises(ExplainError, match="no job and no pod default/train"):
        run_to_end(explain_by_name(stage.engine, [], "default", "train"))
