"""The patch between two structs makes the one of the other, and says no more than it must."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.controllers.controller import merge_patch
from kframework_batch.objects import JobState, JobStatus, PodGroupSpec

_SPECS = st.builds(
    PodGroupSpec,
    min_member=st.integers(0, 2),
    min_task_member=st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)),
    queue=st.sampled_from(["", "q"]),
    min_resources=st.none() | st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "2"])),
)


def applied(target: object, patch: object) -> object:
    """Apply a patch as RFC 7386 writes it down."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@given(_SPECS, _SPECS)
def test_patch_turns_old_into_new(old: PodGroupSpec, new: PodGroupSpec) -> None:
    patch = merge_patch(old, new)
    assert msgspec.convert(applied(msgspec.to_builtins(old), patch), PodGroupSpec) == new
    assert (patch == {}) == (old == new)


def test_patch_has_only_changed_fields() -> None:
    old = JobStatus(state=JobState(phase="Running", reason="r"), running=2, failed=1)
    new = JobStatus(state=JobState(phase="Failed", reason="r"), running=2)
    assert merge_patch(old, new) == {"state": {"phase": "Failed"}, "failed": None}
