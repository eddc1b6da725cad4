"""How a run under faults is laid out: how large it is, what befalls it how often, how schedulers are configured."""

from __future__ import annotations

import math
from random import Random

import msgspec

from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.core.runtime.registry import Registry
from kframework.values.feature_gates import FeatureGates
from tests.faults.disruptive_plugins import RandomErrors, RandomPermit, SecondPermit
from tests.support.faulty_transport import Rates

__all__ = ["EXTENDED", "PLUGINS", "RATES", "RunSettings", "configuration", "feature_gates", "random_settings"]

#: The plugins that are not in the default profile.
PLUGINS: Registry = Registry.with_plugins(RandomPermit, SecondPermit, RandomErrors)

#: What the extender is asked about: no node need offer it.
EXTENDED = "example.com/licence"

CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: {percentage}
extenders: [{extenders}]
profiles:
- plugins:
    permit:
      enabled: [{{name: RandomPermit}}, {{name: SecondPermit}}]
    reserve:
      enabled: [{random_errors}]
    preBind:
      enabled: [{random_errors}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: {strategy}}}}}
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
podMaxInUnschedulablePodsDuration: 10h
seed: {seed}
gangBindingTimeout: {gang_timeout}s
featureGates: {gates}
"""

_EXTENDER = """{urlPrefix: "http://extender", filterVerb: filter, prioritizeVerb: prioritize, preemptVerb: preempt,
  weight: 1, nodeCacheCapable: true, managedResources: [{name: "%s", ignoredByScheduler: true}]}"""

#: Every request has one of seven faults with a chance of one in ten; of the lines of a watch it is one in twenty.
RATES = Rates(
    conflict=0.015,
    too_many_requests=0.015,
    internal_error=0.015,
    unavailable=0.015,
    lost=0.01,
    unanswered=0.015,
    reset=0.01,
    delayed=0.02,
    late=0.02,
    doubtful=0.01,
    expired=0.05,
    dropped=0.01,
    forgotten=0.004,
    stalls=0.0007,
    repeated=0.03,
    slow=0.004,
)


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How large a run is, how many seconds pass between two pods for one node, and what befalls it.

    A scheduler lives for `lifetime` seconds on average until another one follows. There may be an extender that fails,
    budgets in the way of preemption, plugins that raise, moments at which the whole process halts, devices that pods
    claim, and groups of pods, whose gangs may be bound in part for at most `gang_timeout` seconds (0: without a limit).
    """

    nodes: int = 4
    pods: int = 80
    pause: float = 15.0
    rates: Rates = RATES
    lifetime: float = math.inf
    extender: bool = False
    budgets: bool = False
    plugin_errors: bool = False
    standstills: bool = False
    devices: bool = False
    groups: bool = False
    gang_timeout: int = 0


#: A small run of one scheduler.
PLAIN = RunSettings()


def random_settings(seed: int, pods: int) -> RunSettings:
    """Draw a shape in which all that can befall a scheduler does in some seeds, and a little of it in most.

    A node gets a pod in 25 s: with one in 15 s, pods wait in line at times, and are tried five times as often.
    """
    random = Random(f"{seed}/shape")
    return RunSettings(
        nodes=random.randint(4, 16),
        pods=pods,
        pause=25.0,
        lifetime=random.choice([math.inf, 100.0, 400.0]),
        extender=random.random() < 0.15,
        budgets=random.random() < 0.3,
        plugin_errors=random.random() < 0.5,
        standstills=random.random() < 0.5,
        devices=random.random() < 0.3,
        groups=random.random() < 0.3,
        gang_timeout=random.choice([0, 1, 20]),
    )


def feature_gates(shape: RunSettings) -> FeatureGates:
    """Return the gates of the API server and of the schedulers."""
    return configuration(0, shape).options.gates


def configuration(seed: int, shape: RunSettings = PLAIN, life: int = 0) -> Configuration:
    """Make the default profile with more plugins, and ties drawn by the seed; every other life scores otherwise."""
    return parse(
        CONFIGURATION.format(
            seed=seed + life,
            gang_timeout=shape.gang_timeout,
            strategy="MostAllocated" if life % 2 else "LeastAllocated",
            percentage=50 if life % 2 else 0,
            extenders=_EXTENDER % EXTENDED if shape.extender else "",
            random_errors="{name: RandomErrors}" if shape.plugin_errors else "",
            gates="{GenericWorkload: true, TopologyAwareWorkloadScheduling: true, CompositePodGroup: true}"
            if shape.groups
            else "{}",
        )
    )
