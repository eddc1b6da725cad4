"""What the command line says goes before the configuration file, and by the same rules."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kframework.config.configuration import Configuration
from kframework.config.duration import Duration
from kframework.config.load import parse, with_overrides
from kframework.errors import ConfigError, ConfigErrors

TOO_SHORT = "renewDeadline must be greater than retryPeriod*JitterFactor"

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: mine}
clientConnection: {qps: 7}
"""


def override(
    leader_election: Mapping[str, object] = {},
    client_connection: Mapping[str, object] = {},
    options: Mapping[str, object] = {},
) -> Configuration:
    return with_overrides(
        parse(FILE), leader_election=leader_election, client_connection=client_connection, options=options
    )


def test_missing_option_keeps_the_value_of_the_file() -> None:
    nothing = {"leader_elect": None, "resource_name": None}
    assert override(nothing, {"qps": None, "burst": None}, {"seed": None}) == parse(FILE)


def test_given_option_overrides_the_file() -> None:
    lasting = {"leader_elect": False, "lease_duration": Duration(60)}
    changed = override(lasting, {"qps": 1.5}, {"pod_max_in_unschedulable_pods_duration": Duration(30)})
    election = changed.settings.leader_election
    assert (election.leader_elect, election.lease_duration, election.resource_name) == (False, 60.0, "mine")
    assert (changed.settings.client_connection.qps, changed.settings.client_connection.burst) == (1.5, 100)
    assert changed.options.pod_max_in_unschedulable_pods_duration == 30.0
    assert changed.profiles == parse(FILE).profiles


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        (
            {"leader_election": {"retry_period": Duration(9)}},
            [f'leaderElection.renewDeadline: Invalid value: "10s": {TOO_SHORT}'],
        ),
        (
            {
                "leader_election": {"resource_lock": "endpoints"},
                "options": {"pod_max_in_unschedulable_pods_duration": Duration(0)},
            },
            [
                'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
                'podMaxInUnschedulablePodsDuration: Invalid value: "0s": must be greater than zero',
            ],
        ),
    ],
)
def test_rules_hold(fields: dict[str, Mapping[str, object]], lines: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        override(**fields)
    errors = raised.value.errors if isinstance(raised.value, ConfigErrors) else (raised.value,)
    assert [str(error) for error in errors] == lines
