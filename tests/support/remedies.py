"""Lists the remedies for a pod, from an engine with the default plugins over an unchanging cluster."""

from __future__ import annotations

from collections.abc import Iterable

from kframework import Plugin
from kframework.clock import SystemClock
from kframework.config.load import parse
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.explain.remedies.remedies import format_proposal, remedies
from kframework.explain.remedies.suggestions import SuggestHooks, Trial
from kframework.framework.suggestions import Proposal, Suggestion, delete_pod
from kframework.objects import ApiObject, Pod
from kframework.scheduler.cooperative import run_to_end
from kframework.state.cluster import ClusterState
from kframework.state.inbox import Upserted
from kframework.state.pods import PendingPod
from kframework.testing import pending_pod
from kframework.values.status import Code, Status

__all__ = ["find_remedies", "make_engine", "pending", "remedy_lines", "suggest", "suggest_deletion"]

_CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {{multiPoint: {{enabled: [{plugins}]}}}}
"""


def make_engine(objects: Iterable[ApiObject], *plugins: type[Plugin]) -> PodEngine:
    """Make an engine with the default plugins, and these behind them, that has seen these objects."""
    effects = Host()
    text = _CONFIGURATION.format(plugins=", ".join(f"{{name: {plugin.name}}}" for plugin in plugins))
    profiles = profiles_factory(parse(text), Registry.with_plugins(*plugins), effects)
    engine = PodEngine(ClusterState(), SystemClock(), effects, profiles, verifying=False)
    for obj in objects:
        engine.offer(Upserted(obj))
    engine.apply_messages()
    return engine


def pending(engine: PodEngine, pod: Pod) -> PendingPod:
    """Return the pod as the engine sees it; it need not know it."""
    return PendingPod(pod, engine.cluster.interner)


def suggest(
    plugin: str, pod: Pod, *objects: ApiObject, node: str = "a", code: Code = Code.UNSCHEDULABLE
) -> list[Proposal]:
    """Ask a plugin what would answer its rejection of a node, or of the pod as a whole (no name)."""
    engine = make_engine(objects)
    trial = Trial(engine.cluster, engine.profiles[pod.spec.scheduler_name], pending(engine, pod))
    return SuggestHooks(trial.profile).suggest(trial, trial.nodes.find(node), Status(code, ("no",), plugin))


def suggest_deletion(pod: Pod) -> Suggestion:
    """Suggest to delete a pod that names its node."""
    return delete_pod(pending_pod(pod))


def find_remedies(engine: PodEngine, pod: Pod) -> list[Proposal]:
    """Find what would help a pod."""
    return run_to_end(remedies(engine, pending(engine, pod)))


def remedy_lines(pod: Pod, *objects: ApiObject, plugins: Iterable[type[Plugin]] = ()) -> list[str]:
    """Say what would help a pod in a cluster of these objects."""
    return [format_proposal(changes) for changes in find_remedies(make_engine(objects, *plugins), pod)]
