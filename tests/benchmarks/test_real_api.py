"""Schedulers side by side on an API server; the fake one replaces the real one here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.faulty_server import TROUBLES
from benchmarks.real_api import WORKS, PodLoad, drain, drain_in_trouble, main, schedulers

pytestmark = pytest.mark.slow


@pytest.mark.long
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.title)
def test_scheduler_binds_all_pods(work: PodLoad) -> None:
    small = replace(work, pods=4, standing=min(work.standing, 3))
    done = drain("fake", schedulers("")["kframework"], small, nodes=5)
    assert done.pods_per_second > 0 and done.first_binding > 0 and done.cpu > 0 and done.mb > 0


def test_scheduler_binds_all_pods_through_a_faulty_proxy() -> None:
    done = drain_in_trouble("fake", schedulers("")["kframework"], TROUBLES[-1].rates, pods=10)
    assert done.seconds >= 0 and done.lost_events == 0


def test_nothing_is_measured_without_a_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBE_ASSETS", raising=False)
    main()
    assert "KUBE_ASSETS" in capsys.readouterr().out
