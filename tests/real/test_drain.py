"""A backlog of pods is bound as fast as the server lets it be, and each of them has its event in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.api import Api, Followed, Json
from tests.end_to_end.processes import kframework
from tests.end_to_end.servers import RealServer
from tests.real.objects import PODS, node, pod

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

#: No limit of our own: the server's alone.
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
"""

NUMBER, PODS_PER_NODE = 3000, 50
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def test_every_pod_of_a_backlog_is_bound_once_and_has_an_event(server: RealServer, api: Api, tmp_path: Path) -> None:
    config, kubeconfig = tmp_path / "config", tmp_path / "scheduler.kubeconfig"
    config.write_text(CONFIG)
    api.create("/api/v1/nodes", *(node(f"n{number}", cpu=PODS_PER_NODE) for number in range(NUMBER // PODS_PER_NODE)))
    api.create(PODS, *(pod(f"p{number}") for number in range(NUMBER)))
    arguments = "run", "--config", str(config), "--kubeconfig", str(kubeconfig), "--secure-port=0"
    placed, result = api.follow(PODS, "spec.nodeName!="), api.follow(EVENTS, "reason=Scheduled")
    with server.client(kubeconfig) as account, placed, result, kframework(*arguments) as scheduler:
        seen_growing(placed)
        seen_growing(result)
        assert scheduler.stop() == 0
    there = Counter(each["spec"]["nodeName"] for each in api.items(PODS))
    assert set(there.values()) == {PODS_PER_NODE}
    bound = Counter(each.pod for each in account.bindings())
    assert len(bound) == NUMBER and set(bound.values()) == {1}, "none was tried in vain"


def seen_growing(followed: Followed) -> None:
    """Wait until there is one for each pod, as long as they become more: that may take a while on a busy machine."""
    for share in range(NUMBER // 30, NUMBER + 1, NUMBER // 30):
        followed.until(at_least(share))


def at_least(number: int) -> Callable[[list[Json]], bool]:
    return lambda versions: len(versions) >= number
