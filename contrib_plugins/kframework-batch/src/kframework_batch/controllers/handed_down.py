"""What is handed down in annotations and labels, from a job to its pods and from a plain pod to its group."""

from __future__ import annotations

from collections.abc import Mapping

from kframework_batch.job import MAY_BE_PREEMPTED

_COOLDOWN = "volcano.sh/cooldown-time"
_ZONE = "volcano.sh/revocable-zone"
_BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")


def annotations_handed_down(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return those that say who may push pods out, and when; of the two budgets of disruptions only the first."""
    budgets = [key for key in _BUDGETS if key in annotations]
    return _taken(annotations, MAY_BE_PREEMPTED, _COOLDOWN, _ZONE, *budgets[:1])


def labels_handed_down(labels: Mapping[str, str]) -> dict[str, str]:
    """Return those that say who may push pods out, and when."""
    return _taken(labels, MAY_BE_PREEMPTED, _COOLDOWN)


def _taken(texts: Mapping[str, str], *keys: str) -> dict[str, str]:
    return {key: texts[key] for key in keys if key in texts}
