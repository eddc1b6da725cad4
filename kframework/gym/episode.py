"""A simulation that stops whenever a pod may go to several nodes, until an agent has scored them.

To the scheduler the agent is an extender: it adds scores to those of the plugins after Filter, as kube-scheduler's
extenders do by `prioritizeVerb`. All else is as in any simulation. No virtual time passes while the agent decides.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from msgspec.structs import replace

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.core.cycle.scoring import Scoring
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import ExtenderClient, Filtered
from kframework.core.host import Host
from kframework.core.plugin_handle import ProfilesFactory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.programmatic import ConfigurationSource
from kframework.errors import InputError
from kframework.framework.answers import Candidate
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject, Pod
from kframework.scheduler.extenders import Extenders
from kframework.simulation.inputs import load_simulation_configuration
from kframework.simulation.measures import MeasureRecorder, PodDemands, SimulationMeasures
from kframework.simulation.simulation import Simulation
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.values.scores import Scores
from kframework.values.status import Status

#: Larger than any total of Score plugins: these only decide between nodes that the agent scores alike.
_SCALE = 1_000_000

#: Garbage is collected after episodes with this number of pods: some 80 MiB, in a twentieth of the time that they take.
#: Python does not collect it by itself, as simulations freeze objects at each step.
_COLLECTED_PODS = 2_000


class Episodes:
    """Simulations of clusters that are drawn at random.

    `create_cluster` draws the objects of one with the generator that it is given; annotations say when pods arrive and
    end. `config` and `plugins` are those of `Simulation`. An episode ends when nothing changes any more, or after
    `seconds` of virtual time. Raises ConfigError for an invalid configuration.
    """

    #: The pods of all episodes of the process since garbage was collected.
    _pods: ClassVar[int] = 0

    def __init__(
        self,
        create_cluster: Callable[[np.random.Generator], Iterable[ApiObject]],
        config: ConfigurationSource | None = None,
        *,
        plugins: Iterable[type[Plugin]] = (),
        seconds: float = math.inf,
    ) -> None:
        self._create_cluster = create_cluster
        self._plugins = tuple(plugins)
        self._configuration = load_simulation_configuration(config, self._plugins)
        self._seconds = seconds

    def start(self, random: np.random.Generator) -> Episode:
        """Start an episode; InputError if none of its pods may go to several nodes, and for invalid objects."""
        objects, seed = tuple(self._create_cluster(random)), int(random.integers(1 << 31))
        pods = [each for each in objects if isinstance(each, Pod) and not each.spec.node_name]
        self._collect_garbage(len(pods))
        agent = _Agent()
        simulation = Simulation(
            objects, self._configuration, plugins=self._plugins, seed=seed, engine=agent.create_engine
        )
        episode = Episode(simulation, agent, PodDemands.from_pods(pods), self._seconds)
        episode.advance()
        if episode.search is None:
            raise InputError("no pod of the episode may go to several nodes, so there is nothing to decide")
        return episode

    @classmethod
    def _collect_garbage(cls, pods: int) -> None:
        """Collect what earlier episodes left, if that is much, before one with this number of pods."""
        if cls._pods > _COLLECTED_PODS:
            gc.collect()
            cls._pods = 0
        cls._pods += pods


class Episode:
    """A simulation under the control of an agent.

    Attributes:
        simulation: the simulation; between two steps it may be read and changed.
        demands: the requests of the pods that its objects have, without pods that controllers create.
    """

    def __init__(self, simulation: Simulation[PodEngine], agent: _Agent, demands: PodDemands, seconds: float) -> None:
        self.simulation = simulation
        self.demands = demands
        self._agent = agent
        self._seconds = seconds
        self._recorder = MeasureRecorder(simulation)

    @property
    def search(self) -> Search | None:
        """The search that waits for scores; None if the episode is over."""
        return None if self._agent.answer is None else self.simulation.scheduler.engine.current_search

    @property
    def nodes(self) -> NodeTable:
        """The scheduler's table of nodes."""
        return self.simulation.scheduler.engine.cluster.nodes

    @property
    def measures(self) -> SimulationMeasures:
        """The measures of the simulation until now, as in a sweep."""
        return self._recorder.measures

    def advance(self) -> None:
        """Run until the next pod may go to several nodes, or to the end."""
        self.simulation.run_to_end(max(self._seconds - self.simulation.seconds, 0.0))

    def answer(self, scores: Scores) -> None:
        """Score the feasible nodes of the search, in its order, and run on; the profile decides among equal ones."""
        search = self.search
        if search is None:
            raise RuntimeError("the episode is over")
        nodes = (search.nodes.by_row[row].name for row in search.feasible.tolist())
        self._agent.send(dict(zip(nodes, (scores * _SCALE).tolist(), strict=True)))
        self.advance()

    def weigh(self, weights: Mapping[str, int]) -> Scores:
        """Return the totals of the feasible nodes if these plugins score, with these weights, and no others.

        Raises InputError for a plugin that does not score, or that fails.
        """
        search = self.search
        if search is None:
            raise RuntimeError("the episode is over")
        names = {step.name for step in search.profile.original.scores}
        if unknown := sorted(weights.keys() - names):
            raise InputError(f"weights: {unknown[0]} is no Score plugin of profile {search.profile.name}")
        steps = []
        for step in search.plan.scores:
            if step.name in weights:
                step = copy.copy(step)
                step.weight = weights[step.name]
                steps.append(step)
        plan = replace(search.plan.uncached, fresh_scores=tuple(steps))
        scoring = Scoring(plan, search.state, search.pod, search.nodes, search.positions, search.feasible)
        skipped = scoring.pre_score()
        totals = skipped if isinstance(skipped, Status) else scoring.totals(skipped)
        if isinstance(totals, Status):
            raise InputError(f"pod {search.pod.key} cannot be scored: {totals.message}")
        return totals

    def close(self) -> None:
        """Stop the simulation; its results can still be read."""
        self._agent.answer = None
        self.simulation.close()


class _Agent(ExtenderClient):
    """The extenders of a configuration, with an agent in place of their scores.

    `answer` is what the search waits for, None between two questions.
    """

    def __init__(self) -> None:
        self._extenders = Extenders()
        self.answer: asyncio.Future[Mapping[str, int]] | None = None

    def create_engine(
        self, configuration: Configuration, clock: Clock, host: Host, extenders: Extenders, profiles: ProfilesFactory
    ) -> PodEngine:
        """Create an engine that asks the agent about every pod, also about those of a run."""
        self._extenders = extenders
        engine = PodEngine.from_configuration(configuration, clock, host, self, profiles)
        engine.run_length = 1
        return engine

    def send(self, scores: Mapping[str, int]) -> None:
        """Answer the search; it continues when the simulation runs."""
        assert self.answer is not None
        self.answer.set_result(scores)
        self.answer = None

    @property
    def needs_scoring(self) -> bool:
        return True

    def __len__(self) -> int:
        return 1

    def filter(self, pod: PendingPod, nodes: Sequence[NodeInfo]) -> Awaitable[Filtered]:
        return self._extenders.filter(pod, nodes)

    def prioritize(self, pod: PendingPod, nodes: Sequence[NodeInfo]) -> Awaitable[Mapping[str, int]]:
        loop = asyncio.get_running_loop()
        self.answer = loop.create_future()
        loop.stop()
        return self.answer

    def preempt(
        self, pod: PendingPod, candidates: Sequence[Candidate], nodes: NodeTable
    ) -> Awaitable[Sequence[Candidate]]:
        return self._extenders.preempt(pod, candidates, nodes)
