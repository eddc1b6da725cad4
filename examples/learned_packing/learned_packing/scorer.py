"""The scorer: a weighted sum of a few numbers about what a pod would leave free on a node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kframework.gym import Features

__all__ = ["FEATURES", "WEIGHTS", "Scorer", "read_scorer"]

#: What it sees of nodes and pods: amounts, as shares of the largest node of its training.
FEATURES = Features({"cpu": 32, "memory": "128Gi"})

#: What it weighs.
WEIGHTS = ("mean", "square", "gap", "least", "unused", "size")

#: Ratings are integers: a difference of one millionth still counts.
_STEPS = 1_000_000

Weight = Annotated[float, Field(ge=-1e3, le=1e3, allow_inf_nan=False)]


class Scorer(BaseModel):
    """The weights of the numbers that describe a node once the pod runs there.

    Attributes:
        mean: of the free share of each resource, their mean.
        square: the square of the mean.
        gap: the difference between the largest share and the smallest.
        least: the smallest share.
        unused: 1 for a node without requests before, else 0.
        size: the mean of the node's allocatable amounts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mean: Weight
    square: Weight
    gap: Weight
    least: Weight
    unused: Weight
    size: Weight

    def rate(self, nodes: NDArray[np.float32], pod: NDArray[np.float32]) -> NDArray[np.int64]:
        """Rate nodes for a pod, both as `FEATURES` has them: the larger the better."""
        offered, free = np.hsplit(nodes.astype(np.float64), 2)
        left = np.maximum(free - pod, 0.0) / np.maximum(offered, 1e-9)
        mean, least = left.mean(axis=1), left.min(axis=1)
        numbers = (mean, mean**2, left.max(axis=1) - least, least, (free == offered).all(axis=1), offered.mean(axis=1))
        rating = sum(getattr(self, name) * number for name, number in zip(WEIGHTS, numbers, strict=True))
        return (np.asarray(rating) * _STEPS).round().astype(np.int64)


def read_scorer(file: Path) -> Scorer:
    """Read what `learned_packing.train` wrote; ValueError says what is wrong with it and what to do."""
    remedy = f"train one with `python -m learned_packing.train {file}`"
    try:
        return Scorer.model_validate_json(file.read_bytes())
    except OSError as error:
        raise ValueError(f"{error.strerror}; {remedy}") from error
    except ValidationError as error:
        first = error.errors()[0]
        path = "".join(f"{name}: " for name in first["loc"])
        raise ValueError(f"invalid scorer: {path}{first['msg']}; {remedy}") from error
