"""Our own document."""

from __future__ import annotations

import pytest

from kframework.config.configuration import Options
from kframework.config.duration import Duration
from kframework.config.load import parse
from kframework.errors import ConfigError

OWN = "apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\n"


def test_defaults_are_those_of_an_empty_document() -> None:
    options = parse(OWN).options
    assert options == Options()
    assert (options.seed, options.layer_memory, options.layer_memory_bytes) == (0, "256Mi", 256 * 2**20)
    assert options.pod_max_in_unschedulable_pods_duration == Duration(300)
    assert options.preempt_other_schedulers_pods
    assert [f"{name} {limit}" for name, limit in options.hook_timeouts] == [
        *("start 30s", "source 30s", "pre_bind 10m0s", "bind 1m0s", "post_bind 30s", "close 5s")
    ]
    tracing = options.tracing
    assert (tracing.exporter, tracing.endpoint, tracing.sampling_rate_per_million) == ("none", None, 0)


def test_given_values_are_loaded() -> None:
    options = parse(
        OWN + "seed: 42\nlayerMemory: 1Gi\ntracing: {exporter: otlp, endpoint: 'http://c:4318',"
        " samplingRatePerMillion: 1000000}\npodMaxInUnschedulablePodsDuration: 10m\n"
        "preemptOtherSchedulersPods: false\nhookTimeouts: {preBind: 1h, close: 500ms}\n"
    ).options
    assert (options.seed, options.layer_memory_bytes) == (42, 2**30)
    assert options.tracing.exporter == "otlp"
    assert (options.tracing.endpoint, options.tracing.sampling_rate_per_million) == ("http://c:4318", 1_000_000)
    assert options.pod_max_in_unschedulable_pods_duration == Duration(600)
    assert not options.preempt_other_schedulers_pods
    timeouts = options.hook_timeouts
    assert (timeouts.pre_bind, timeouts.close, timeouts.bind) == (3600.0, 0.5, 60.0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("layerMemory: lots\n", "c.yaml:3: layerMemory: 'lots' is not a quantity"),
        ("layerMemory: -1\n", "c.yaml:3: layerMemory: expected a string, got -1"),
        ("layerMemory: '-1'\n", 'c.yaml:3: layerMemory: Invalid value: "-1": must be non-negative'),
        (
            "tracing:\n  samplingRatePerMillion: 1000001\n",
            "c.yaml:4: tracing.samplingRatePerMillion: Invalid value: 1000001: not in valid range [0, 1000000]",
        ),
        (
            "podMaxInUnschedulablePodsDuration: 0s\n",
            'c.yaml:3: podMaxInUnschedulablePodsDuration: Invalid value: "0s": must be greater than zero',
        ),
        (
            "hookTimeouts: {start: 0s, preBind: 1h}\n",
            'c.yaml:3: hookTimeouts.start: Invalid value: "0s": must be greater than zero',
        ),
        ("hookTimeouts:\n  prebind: 1h\n", 'c.yaml:4: hookTimeouts.prebind: unknown field "prebind"'),
        ("extenders: []\n", 'c.yaml:3: extenders: unknown field "extenders"'),
    ],
)
def test_invalid_values_are_refused_with_the_rule(body: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(OWN + body, "c.yaml")
    assert str(caught.value).startswith(message)
