"""A tournament knows at all times what going along the column would find."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from kframework_batch.tournament import ABSENT, Tournament
from numpy.typing import NDArray

#: None, one block and a bit more, two rounds and a bit more, three rounds.
SIZES = (0, 1, 31, 32, 33, 1_024, 1_025, 40_000)

SCORES = (ABSENT, -1.5, 0.0, 2.0, 2.0 + 1e-9, 7.0)


class Slowly:
    """The column alone, gone along for every answer."""

    def __init__(self, rows: int) -> None:
        self.scores: list[float] = [ABSENT] * rows

    @property
    def best(self) -> float:
        return max(self.scores, default=ABSENT)

    @property
    def winners(self) -> list[int]:
        best = self.best
        return [row for row, score in enumerate(self.scores) if score == best > ABSENT]

    @property
    def entered(self) -> int:
        return sum(score > ABSENT for score in self.scores)


def compare(tournament: Tournament, slowly: Slowly, random: Random) -> None:
    winners = slowly.winners
    assert (tournament.best, tournament.ties, tournament.count) == (slowly.best, len(winners), slowly.entered)
    asked = {0, len(winners) - 1, random.randrange(len(winners))} if winners else set()
    assert {number: tournament.best_row(number) for number in asked} == {number: winners[number] for number in asked}


def some(random: Random, rows: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw rows, few or many, and what they are to score."""
    count = random.choice([random.randint(0, rows), min(rows, random.randint(0, 5))])
    scores = random.choices(SCORES if random.random() < 0.7 else SCORES[:2], k=count)
    return np.array(random.sample(range(rows), count), dtype=np.int64), np.array(scores, dtype=np.float64)


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_best_score_is_correct_after_any_updates(rows: int, seed: int) -> None:
    random = Random(f"{rows}/{seed}")
    tournament, slowly = Tournament(rows), Slowly(rows)
    compare(tournament, slowly, random)
    for _ in range(60 if rows < 10_000 else 15):
        if random.random() < 0.3:
            where, scores = some(random, rows)
            tournament.put_many(where, scores)
            for row, score in zip(where.tolist(), scores.tolist(), strict=True):
                slowly.scores[row] = score
        for _ in range(random.randint(0, 40) if rows else 0):
            row, score = random.randrange(rows), random.choice(SCORES)
            tournament.put(row, score)
            slowly.scores[row] = score
        compare(tournament, slowly, random)


@pytest.mark.parametrize("rows", [33, 1_100])
@pytest.mark.parametrize("step", [-3.0, 0.5], ids=["the winner falls back", "the winner moves ahead"])
@pytest.mark.parametrize("alike", [True, False], ids=["uniform", "all different"])
def test_best_rows_are_enumerated(rows: int, step: float, alike: bool) -> None:
    """As in placement: the chosen row's score changes, until the row drops out."""
    random = Random(f"{rows}/{step}/{alike}")
    tournament, slowly = Tournament(rows), Slowly(rows)
    slowly.scores = [5.0 if alike else random.uniform(0, 9) for _ in range(rows)]
    tournament.put_many(np.arange(rows), np.array(slowly.scores))
    for _ in range(200):
        compare(tournament, slowly, random)
        if not tournament.ties:
            break
        row = tournament.best_row(random.randrange(tournament.ties))
        score = tournament.best + step
        slowly.scores[row] = score if 0 <= score <= 9 else ABSENT
        tournament.put(row, slowly.scores[row])


def test_best_row_number_out_of_range_is_an_error() -> None:
    tournament = Tournament(3)
    tournament.put(1, 4.0)
    assert tournament.best_row(0) == 1
    with pytest.raises(IndexError):
        tournament.best_row(1)


def test_scores_column_is_readable() -> None:
    tournament = Tournament(3)
    tournament.put(1, 4.0)
    assert tournament.scores[:3].tolist() == [ABSENT, 4.0, ABSENT]
    assert np.flatnonzero(tournament.scores > ABSENT).tolist() == [1]
