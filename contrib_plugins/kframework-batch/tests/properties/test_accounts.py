"""What accounts say of the sessions of random worlds is true: a slow plain model replays them, turn by turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.batch_accounts.scene import SessionScene
from tests.support.scale import seeds

SESSIONS = 6

#: Makes a World of conftest.py.
MakeWorld = Callable[[int], Any]


@pytest.mark.parametrize("seed", seeds())
def test_accounts_match_the_cluster(seed: int, make_world: MakeWorld) -> None:
    world = make_world(seed)
    for _ in range(SESSIONS):
        scene = SessionScene(world)
        scene.judge(scene.account)
        world.happen()


@pytest.mark.slow
def test_random_worlds_cover_all_parts_of_accounts(make_world: MakeWorld) -> None:
    """Whatever an account can say is said in some of the worlds."""
    said: Counter[str] = Counter()
    for seed in (*range(25), 43, 96):
        world = make_world(seed)
        for _ in range(SESSIONS):
            for turn in SessionScene(world).account.turns:
                said[f"{turn.action} {turn.outcome}"] += 1
                said.update(["victims"] * len(turn.victims) + ["spared"] * len(turn.protected))
                said.update("placed" if verdict.node else "rejected" for verdict in turn.verdicts)
            world.happen()
    assert said["placed"] > 200 and said["rejected"] > 100 and said["victims"] and said["spared"], said
    acting = {"allocate": ("committed", "kept", "discarded", "overused", "invalid"), "backfill": ("committed",)}
    acting |= {"enqueue": ("admitted", "held back"), "preempt": ("committed", "discarded"), "reclaim": ("discarded",)}
    assert {f"{action} {outcome}" for action, outcomes in acting.items() for outcome in outcomes} <= said.keys(), said
