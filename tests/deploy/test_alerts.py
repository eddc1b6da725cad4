"""Each alert fires on its fault and on no other; a scheduler that works is left in peace."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.test_monitoring import unknown
from tests.examples.clean_environment import ROOT

FILE = ROOT / "deploy/alerts/rules.yaml"
PAGE = ROOT / "docs/how-to/production.md"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]
}

_ATTEMPTS = 'scheduler_schedule_attempts_total{job="kframework",profile="default-scheduler",result="%s"}'
_DURATIONS = 'scheduler_scheduling_attempt_duration_seconds_bucket{job="kframework",result="scheduled",le="%s"}'
_REQUESTS = 'rest_client_requests_total{job="kframework",code="%s",method="POST",host="api"}'
_LEADER = 'leader_election_master_status{job="kframework",instance="%s",name="kframework"}'
_ACTIVE = 'scheduler_pending_pods{job="kframework",queue="active"}'
_FLUSHED = 'scheduler_pod_scheduled_after_flush_total{job="kframework"}'
_SLOW = 'kframework_slow_hooks_total{job="kframework",plugin="Mine",hook="filter"}'
_FRESH = 'kframework_source_fresh{job="kframework",profile="default-scheduler",plugin="Mine",source="loads"}'
_TAKEN = 'kframework_configuration_last_reload_successful{job="kframework",instance="a"}'
_DROPPED = 'kframework_dropped_events_total{job="kframework",reason="queue_full"}'

#: Two hours of a scheduler that works, a value a minute: `0+60x120` rises by 60 a minute.
HEALTHY = {
    _LEADER % "a": "1x120",
    _LEADER % "b": "0x120",
    _ATTEMPTS % "scheduled": "0+600x120",
    _ATTEMPTS % "unschedulable": "0+60x120",
    _ATTEMPTS % "error": "0+1x120",
    _DURATIONS % "0.016": "0+599x120",
    _DURATIONS % "2.048": "0+600x120",
    _DURATIONS % "+Inf": "0+600x120",
    _REQUESTS % "201": "0+600x120",
    _REQUESTS % "500": "0+6x120",
    _ACTIVE: "3x120",
    _FLUSHED: "0x120",
    _SLOW: "0x120",
    _FRESH: "1x120",
    _TAKEN: "1x120",
    _DROPPED: "0x120",
}
FAULTS: dict[str, dict[str, str]] = {
    "KframeworkHasNoLeader": {_LEADER % "a": "0x120"},
    "KframeworkIsStuck": {_ATTEMPTS % result: "1000x120" for result in ("scheduled", "unschedulable", "error")},
    "KframeworkAttemptsFail": {_ATTEMPTS % "error": "0+60x120"},
    "KframeworkIsSlow": {_DURATIONS % "0.016": "0+500x120"},
    "KframeworkPluginBlocks": {_SLOW: "0+1x120"},
    "KframeworkLosesWakeUps": {_FLUSHED: "0x110 1x10"},
    "KframeworkDataAreStale": {_FRESH: "1x100 0x20"},
    "KframeworkConfigurationIsRefused": {_TAKEN: "1x100 0x20"},
    "KframeworkRequestsFail": {_REQUESTS % "500": "0+100x120"},
    "KframeworkDropsEvents": {_DROPPED: "0+10x120"},
}


@pytest.mark.parametrize("name", RULES)
def test_alerts_use_existing_series(name: str) -> None:
    assert unknown(RULES[name]["expr"]) == []


@pytest.mark.parametrize("name", RULES)
def test_page_says_what_to_do(name: str) -> None:
    assert f"`{name}`" in PAGE.read_text()


@pytest.mark.tool("promtool")
def test_alerts_fire_on_their_faults_alone(tmp_path: Path) -> None:
    assert FAULTS.keys() == RULES.keys()
    cases: list[tuple[str | None, dict[str, str]]] = [(None, HEALTHY)]
    # No replica at all is no leader either.
    cases += [("KframeworkHasNoLeader", {_FRESH: "1x120"})]
    cases += [(name, HEALTHY | fault) for name, fault in FAULTS.items()]
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in all_series.items()],
            "promql_expr_test": [
                {
                    "expr": 'group by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": "2h",
                    "exp_samples": [] if name is None else [{"labels": f'{{alertname="{name}"}}', "value": 1}],
                }
            ],
        }
        for name, all_series in cases
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FILE)], "evaluation_interval": "1m", "tests": tests}))
    check = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr
