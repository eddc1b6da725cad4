"""Fit a model to what became of earlier pods: `python -m learned.train HISTORY.csv MODEL.json`.

The history has a line for each pod: how full its node was when it was placed there, and how much it was slowed down.

    cpu,memory,pods,slowdown
    0.25,0.10,4,0.07
"""

from __future__ import annotations

import csv
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from learned.model import FEATURES, MAX_WEIGHT, Model

__all__ = ["fit", "main", "read_history"]

COLUMNS = (*FEATURES, "slowdown")


def read_history(file: Path) -> NDArray[np.float64]:
    """Return a row for each pod, with the features and the slowdown; ValueError names the line that is wrong."""
    with file.open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines)
        if missing := [column for column in COLUMNS if column not in (reader.fieldnames or ())]:
            raise ValueError(f"{file}:1: no column {missing[0]}; the first line names {','.join(COLUMNS)}")
        rows = []
        for line in reader:
            try:
                row = [float(line[column]) for column in COLUMNS]
            except (TypeError, ValueError):
                row = [np.nan]
            if not np.isfinite(row).all():
                raise ValueError(
                    f"{file}:{reader.line_num}: {','.join(COLUMNS)} must be numbers; fix or remove the line"
                )
            rows.append(row)
    return np.array(rows).reshape(-1, len(COLUMNS))


def fit(history: NDArray[np.float64]) -> Model:
    """Return the model that errs least, by the sum of squares; ValueError if the history does not determine it."""
    features = np.column_stack([np.ones(len(history)), history[:, :-1]])
    weights, _, rank, _ = np.linalg.lstsq(features, history[:, -1])
    if rank < features.shape[1] or np.abs(weights).max() > MAX_WEIGHT:
        raise ValueError(f"{len(history)} pods on too similar nodes; add pods on emptier and on fuller ones")
    base, cpu, memory, pods = weights.tolist()
    return Model(base=base, cpu=cpu, memory=memory, pods=pods)


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line says."""
    parser = ArgumentParser(prog="python -m learned.train", description="Fit a model to what became of earlier pods.")
    parser.add_argument("history", type=Path, metavar="HISTORY.csv")
    parser.add_argument("model", type=Path, metavar="MODEL.json")
    files = parser.parse_args(arguments)
    try:
        history = read_history(files.history)
        model = fit(history)
        files.model.write_text(model.model_dump_json(indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        sys.exit(f"error: {error.filename}: {error.strerror}")
    except (csv.Error, ValueError) as error:
        sys.exit(f"error: {error}")
    cpu, memory, pods, slowdown = history.T
    mean_error = np.abs(model.slowdown(cpu, memory, pods) - slowdown).mean()
    sys.stdout.write(f"{files.model}: fitted to {len(history)} pods, mean error {mean_error:.3f}\n")


if __name__ == "__main__":
    main()
