"""Host ports and their conflicts."""

from __future__ import annotations

import pytest

from kframework.objects.pod import Container, ContainerPort, PodSpec
from kframework.state.host_ports import HostPort, any_conflict, conflicts, host_ports


def container(*ports: ContainerPort, restart_policy: str | None = None) -> Container:
    return Container(ports=ports, restart_policy=restart_policy)


def test_sidecars_and_containers_hold_ports() -> None:
    spec = PodSpec(
        init_containers=(
            container(ContainerPort(host_port=1)),
            container(ContainerPort(host_port=2, host_ip="10.0.0.1", protocol="UDP"), restart_policy="Always"),
        ),
        containers=(container(ContainerPort(container_port=80), ContainerPort(host_port=3)),),
    )
    assert host_ports(spec) == (HostPort("10.0.0.1", "UDP", 2), HostPort("0.0.0.0", "TCP", 3))


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 81), False),
        (("::", "TCP", 80), ("10.0.0.1", "TCP", 80), False),
        (("::", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
    ],
)
def test_ports_conflict_by_address_and_protocol(
    one: tuple[str, str, int], other: tuple[str, str, int], conflict: bool
) -> None:
    assert conflicts(HostPort(*one), HostPort(*other)) is conflict
    assert conflicts(HostPort(*other), HostPort(*one)) is conflict


def test_one_conflict_is_enough_and_wanted_ports_do_not_disturb_each_other() -> None:
    http, https = HostPort("0.0.0.0", "TCP", 80), HostPort("0.0.0.0", "TCP", 443)
    assert any_conflict([http, https], iter([https]))
    assert not any_conflict([http, http], [https])
    assert not any_conflict([http], [])
