"""Three teams share twelve nodes with four GPUs each for an hour; what their queues hold meanwhile is drawn.

    python contrib_plugins/kframework-batch/examples/sharing.py > sharing.svg

Due to them are a half, a third and a sixth of the GPUs. Gangs of research come in the first quarter of the hour and
again from the 35th minute on, those of the product from the 20th. Students take what the others leave and give it back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from random import Random

from kframework_batch.config import parse
from kframework_batch.objects import Job
from kframework_batch.program import compile_program
from kframework_batch.scenario import make_job
from kframework_batch.settings import ProgramSettings
from kframework_batch.shares import ShareRecorder
from kframework_batch.simulation import create_simulation
from kframework_batch.testing import make_node, make_queue

from kframework.simulation.running import Script
from kframework.testing import create

CONFIGURATION = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""

NODES = [make_node(f"gpu-{number}", cpu=32, allocatable={"nvidia.com/gpu": 4}) for number in range(12)]
QUEUES = [make_queue("research", weight=3), make_queue("product", weight=2), make_queue("students", weight=1)]

#: From when to when jobs of a queue come, and how far apart on average; all in seconds.
STREAMS = [
    ("research", 0, 900, 60),
    ("product", 1200, 2400, 70),
    ("research", 2100, 2700, 40),
    ("students", 0, 3000, 240),
]


def arrivals(random: Random) -> Iterator[tuple[float, Job]]:
    """Yield jobs, and when they come, in seconds."""
    for queue, begin, end, apart in STREAMS:
        moment = begin
        while moment < end:
            # A gang of four workers, or, for students, a job of sixteen that is content with one.
            workers, least = (16, 1) if queue == "students" else (4, 4)
            seconds, name = round(random.uniform(240, 720)), f"{queue}-{moment}"
            gpu = {"nvidia.com/gpu": 1}
            yield moment, make_job(name, workers, minimum=least, requests=gpu, queue=queue, seconds=seconds)
            moment += 1 + round(random.expovariate(1 / apart))


def main(seed: int = 0) -> ShareRecorder:
    """Simulate the hour."""
    shares = ShareRecorder()
    come = [(seconds, create(job)) for seconds, job in arrivals(Random(seed))]
    simulation = create_simulation(
        [*NODES, *QUEUES],
        ProgramSettings(compile_program(parse(CONFIGURATION)), seed=seed),
        observers=[shares],
        controllers=[partial(Script, actions=come)],
    )
    with simulation:
        simulation.run(3600.0)
    return shares


if __name__ == "__main__":
    main().write(sys.stdout)
