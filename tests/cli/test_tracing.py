"""Tracing, as the commands have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.cli.tracing import trace_as_configured, traced_to
from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration, parse

OFF = default_configuration()


def tracing_as(options: str) -> Configuration:
    return parse(f"apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\ntracing: {options}\n")


def test_tracing_is_off_by_default() -> None:
    with trace_as_configured(OFF) as tracing, traced_to(None, OFF) as simulated:
        assert (tracing, simulated) == (None, None)


@pytest.mark.parametrize(("rate", "share"), [(0, 1.0), (1, 1e-6)])
def test_trace_file_has_all_attempts_unless_the_configuration_samples(rate: int, share: float, tmp_path: Path) -> None:
    configuration = tracing_as(f"{{exporter: console, samplingRatePerMillion: {rate}}}")
    with traced_to(str(tmp_path / "spans"), configuration) as tracing:
        assert tracing is not None
        assert tracing.share == pytest.approx(share, rel=1e-3)


def test_ids_of_a_simulation_follow_from_its_seed() -> None:
    configuration = tracing_as("{exporter: console, samplingRatePerMillion: 1000000}")
    ids = []
    for context in (traced_to(None, configuration), traced_to(None, configuration), trace_as_configured(configuration)):
        with context as tracing:
            assert tracing is not None
            ids.append(tracing.trace_id(1, 0.0))
    assert ids[0] == ids[1] != ids[2]
