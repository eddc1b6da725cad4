"""The model: how much a pod is slowed down on a node, as a weighted sum of how full the node was before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["FEATURES", "MAX_WEIGHT", "Model", "read_model"]

#: What is known of a node: the shares of its cpu and memory that pods have requested, and the number of its pods.
FEATURES = ("cpu", "memory", "pods")

#: A number of a node, or numbers of many.
Numbers = TypeVar("Numbers", float, NDArray[np.float64])

#: No weight is larger, so that no score overflows.
MAX_WEIGHT = 1e6

Weight = Annotated[float, Field(ge=-MAX_WEIGHT, le=MAX_WEIGHT, allow_inf_nan=False)]


class Model(BaseModel):
    """Weights, by which a pod that took twice as long as on an empty node was slowed down by 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: Weight
    cpu: Weight
    memory: Weight
    pods: Weight

    def slowdown(self, cpu: Numbers, memory: Numbers, pods: Numbers) -> Numbers:
        """Predict it for one node or for many, in the same steps, so that both come to the same number."""
        return self.base + self.cpu * cpu + self.memory * memory + self.pods * pods


def read_model(file: Path) -> Model:
    """Read what `learned.train` wrote; ValueError says what is wrong with it and what to do."""
    remedy = f"make it with `python -m learned.train HISTORY.csv {file}`"
    try:
        return Model.model_validate_json(file.read_bytes())
    except OSError as error:
        raise ValueError(f"{error.strerror}; {remedy}") from error
    except ValidationError as error:
        first = error.errors()[0]
        path = "".join(f"{name}: " for name in first["loc"])
        raise ValueError(f"invalid model: {path}{first['msg']}; {remedy}") from error
