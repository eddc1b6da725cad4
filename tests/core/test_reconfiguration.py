"""What a running scheduler cannot change is refused by name, with its line where there is one."""

from __future__ import annotations

import pytest

from kframework.clock import SystemClock
from kframework.config.load import parse
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory, recompile_profiles
from kframework.core.pod_engine import PodEngine
from kframework.core.reconfiguration import ConfigurationChanged, refuse_fixed_fields, refuse_other_order
from kframework.core.runtime.registry import Registry
from kframework.errors import ConfigError, ConfigErrors
from kframework.scheduler.extenders import Extenders
from tests.extension_points.scripted import plugin
from tests.support.reloads import document, profile

RUNNING = parse(document(profile()))


def test_each_field_is_named_with_its_line() -> None:
    settings = "clientConnection: {qps: 7}\nleaderElection:\n  leaseDuration: 20s"
    with pytest.raises(ConfigErrors) as refused:
        refuse_fixed_fields(RUNNING, parse(document(profile(), settings=settings, options="seed: 7"), "file.yaml"))
    remedy = "restart the scheduler for that"
    assert sorted(str(refused.value).splitlines()) == [
        f"file.yaml: seed: cannot change while the scheduler runs, from 0 to 7: {remedy}",
        f"file.yaml:3: clientConnection.qps: cannot change while the scheduler runs, from 50.0 to 7.0: {remedy}",
        f"file.yaml:5: leaderElection.leaseDuration: cannot change while the scheduler runs, from 15s to 20s: {remedy}",
    ]


def test_all_else_may_change() -> None:
    settings = "parallelism: 3\npercentageOfNodesToScore: 50\npodMaxBackoffSeconds: 60"
    refuse_fixed_fields(RUNNING, parse(document(profile("other"), settings=settings, options="layerMemory: 1Mi")))


def test_order_of_the_queue_stays() -> None:
    by_name = plugin("ByName", queue_sort=lambda queued: queued.pod.name)
    registry, host = Registry.with_plugins(by_name), Host()
    plain = "- schedulerName: default-scheduler\n"
    sorting = "  plugins: {queueSort: {enabled: [{name: ByName}], disabled: [{name: PrioritySort}]}}\n"
    running, other = parse(document(plain)), parse(document(plain, sorting), "file.yaml")
    engine = PodEngine.from_configuration(
        running, SystemClock(), host, Extenders(), profiles_factory(running, registry, host)
    )
    refuse_other_order(engine.profiles, recompile_profiles(engine, running, registry, host), running)
    with pytest.raises(
        ConfigError, match=r"queueSort: the order .* cannot change from PrioritySort to ByName: restart"
    ):
        refuse_other_order(engine.profiles, recompile_profiles(engine, other, registry, host), other)


def test_message_has_the_times_of_the_queue() -> None:
    changed = parse(
        document(profile(), settings="podMaxBackoffSeconds: 60", options="podMaxInUnschedulablePodsDuration: 9s")
    )
    profiles = profiles_factory(changed, Registry.with_plugins(), Host())
    assert profiles is not None
    backoff, longest = ConfigurationChanged(changed, None, Extenders()).queue_times  # type: ignore[arg-type]  # not read
    assert (backoff.initial, backoff.maximum, longest) == (1.0, 60.0, 9.0)
