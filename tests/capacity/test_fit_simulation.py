"""In a cluster at rest no time passes: nothing ends, fails or arrives."""

from __future__ import annotations

from kframework import Simulation
from kframework.capacity.fit_simulation import CONTROLLERS_AT_REST, at_rest
from kframework.objects import CronJob, ObjectMeta, Pod
from kframework.testing import make_node, make_pod


def test_at_rest_nothing_arrives_or_fails_and_nothing_starts_by_the_clock() -> None:
    pod = make_pod("p", annotations={"other": "kept"})
    later = make_pod("later", annotations={"kframework.dev/arrives-seconds": "5"})
    failing = make_node("n", annotations={"kframework.dev/down-seconds": "5-"})
    kept, node = at_rest([pod, later, failing, CronJob(metadata=ObjectMeta(name="nightly"))])
    assert (kept.metadata.annotations, node.metadata.annotations) == ({"other": "kept"}, {})


def test_pods_at_rest_start_and_do_not_end() -> None:
    pod = make_pod("p", annotations={"kframework.dev/run-seconds": "5"})
    with Simulation([make_node("n"), pod], controllers=CONTROLLERS_AT_REST) as simulation:
        simulation.run(60)
        assert simulation.cluster.read(Pod, "p").status.phase == "Running"
