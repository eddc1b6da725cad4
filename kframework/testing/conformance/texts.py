"""The texts of kube-scheduler 1.37 for results that were recorded from 1.36: two texts of PostFilter differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

#: The reasons of DynamicResources that 1.37 leaves out.
_LEFT_OUT = ("no new claims to deallocate", "still not schedulable", "plugin disabled")


def with_texts_of_1_37(expect: Mapping[str, object]) -> dict[str, object]:
    """Return the result of a `single` or `preemption` case with the texts of 1.37."""
    recorded = expect.get("postFilter")
    if not isinstance(recorded, dict):
        return dict(expect)
    before, fit_error = str(recorded.get("message", "")), str(expect.get("fitError", ""))
    after = _preemption_text(recorded) if recorded.get("code") == "Success" else _without_reasons(before)
    message = {"message": after} if after else {}
    others = {name: value for name, value in recorded.items() if name != "message"}
    return {**expect, "postFilter": {**others, **message, "fitErrorAfterPostFilter": f"{fit_error} {after}".rstrip()}}


def _without_reasons(message: str) -> str:
    for reason in _LEFT_OUT:
        message = message.removeprefix(reason).removeprefix(", ")
    return message


def _preemption_text(recorded: Mapping[str, object]) -> str:
    node, victims = recorded["nominatedNode"], len(cast("list[str]", recorded.get("victims", [])))
    return f"preemption: found a potential placement for pod on node {node}, preempting {victims} victims"
