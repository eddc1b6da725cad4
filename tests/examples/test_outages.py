"""What a user reads when the service behind an example is away: who failed and why, a line each."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.cli import main
from tests.examples.clean_environment import ROOT

#: Nobody listens there.
NOWHERE = "http://127.0.0.1:1"

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {{multiPoint: {{enabled: [{{name: {plugin}}}]}}}}
    pluginConfig: [{{name: {plugin}, args: {{url: "{url}"}}}}]
"""

WHY = "ConnectError: All connection attempts failed"
NO_VALUES = "notice: source {0} has delivered no values; play its values from a file with --source {0}=FILE"
FAULT = f"plugin 'Quota' (from kframework-quota 0.1.0), hook pre_bind: {WHY}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plugin", "lines"),
    [
        (
            "Quota",
            [
                f"warning: source 'free' of plugin Quota (profile default-scheduler) failed: {WHY}",
                f'error: {FAULT} location="{ROOT}/examples/quota/quota/quota.py:93"',
                f"error: plugin 'Quota': coroutine Quota.give_back failed: {WHY}",
                NO_VALUES.format("Quota/free"),
                f"warning: gave up on default/small, default/medium: {FAULT}",
                "0 of 3 pods bound, 3 pending; 1321 scheduling cycles in 1h0m0s of virtual time",
                "error: plugin 'Quota', hook pre_bind: failed 659 more times (-v 4 shows each)",
                "error: plugin 'Quota', coroutine Quota.give_back: failed 659 more times (-v 4 shows each)",
            ],
        ),
        (
            "MeasuredLoad",
            [
                f"warning: source 'load' of plugin MeasuredLoad (profile default-scheduler) failed: {WHY}",
                NO_VALUES.format("MeasuredLoad/load"),
                "2 of 3 pods bound, 1 pending; 3 scheduling cycles in 0s of virtual time",
            ],
        ),
    ],
)
def test_failed_fetch_is_logged_in_one_line(
    plugin: str, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(plugin=plugin, url=NOWHERE))
    with pytest.raises(SystemExit):
        main(["simulate", "-f", str(ROOT / "examples/clusters/tiny.yaml"), "--config", str(config)])
    assert capsys.readouterr().err.splitlines() == lines
