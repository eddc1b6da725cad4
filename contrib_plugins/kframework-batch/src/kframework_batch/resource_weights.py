"""What each resource weighs, as arguments of plugins say it, one key for each."""

from __future__ import annotations

from collections.abc import Mapping

from kframework_batch.plugin import BatchArguments


def resource_weights(arguments: BatchArguments, key: str, names: str, **known: int) -> Mapping[str, int]:
    """Return the weights of the `known` resources, and of those whose `names` a list says, by commas.

    The weight of one in the list stands under `<key>.<name>`; it is 1 if nothing is said there, and so is any weight
    below 0. ValueError for what is no whole number.
    """
    listed = filter(None, map(str.strip, names.split(",")))
    weights = {name: _weight_of(arguments, f"{key}.{name}") for name in listed} | known
    return {name: 1 if weight < 0 else weight for name, weight in weights.items()}


def _weight_of(arguments: BatchArguments, key: str) -> int:
    said = (arguments.model_extra or {}).get(key, 1)
    try:
        return int(said)
    except (TypeError, ValueError):
        raise ValueError(f"{key}: expected a whole number, not {said!r}") from None
