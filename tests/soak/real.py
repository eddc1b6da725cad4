"""A scheduler and a fake API server as two processes, pods in and out over HTTP, and the memory that each takes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec

from kframework.client.kube import ConnectionSettings, connect
from kframework.client.kube_cluster import KubeCluster
from kframework.clock import SystemClock
from tests.soak.churn import PodChurn, Shape
from tests.soak.virtual import resident

__all__ = ["Sample", "soak"]

#: kube-scheduler's own limit of 50 requests a second is what 50 pods a second use up with their bindings alone.
_LIMITS = ("--kube-api-qps", "500", "--kube-api-burst", "1000")


class Sample(msgspec.Struct, frozen=True):
    """The resident memory of both processes, in MiB, after a time in seconds and a number of pods."""

    seconds: float
    pods: int
    scheduler: float
    server: float

    def __str__(self) -> str:
        memory = f"scheduler {self.scheduler:.1f} MiB, API server {self.server:.1f} MiB"
        return f"{self.seconds:>6.0f} s  {self.pods:>8,} pods  {memory}"


def soak(seed: int, shape: Shape, seconds: float, every: float, report: Callable[[Sample], None]) -> None:
    """Let pods come and go for this time, and return the memory at each interval."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        with _running("fake-api", "--write-kubeconfig", str(kubeconfig)) as server:
            while not kubeconfig.exists():
                time.sleep(0.1)
            with _running("run", "--kubeconfig", str(kubeconfig), "--leader-elect=false", *_LIMITS) as scheduler:

                def sample(passed: float, pods: int) -> None:
                    report(Sample(passed, pods, resident(scheduler), resident(server)))

                asyncio.run(_churn(kubeconfig, seed, shape, seconds, every, sample))


async def _churn(
    kubeconfig: Path, seed: int, shape: Shape, seconds: float, every: float, sample: Callable[[float, int], None]
) -> None:
    clock = SystemClock()
    transport = await connect(ConnectionSettings(kubeconfig=str(kubeconfig)))
    churn = PodChurn(KubeCluster(transport, clock, random=Random(seed)), clock, Random(seed), shape)
    await churn.begin()
    began = clock.now()
    while (passed := clock.now() - began) < seconds:
        sample(passed, churn.pods)
        await churn.run(clock.now() + every)
    sample(passed, churn.pods)
    await transport.close()


@contextmanager
def _running(*arguments: str) -> Iterator[int]:
    """Run a command of kframework meanwhile, and yield its process id."""
    process = subprocess.Popen([sys.executable, "-m", "kframework", *arguments])
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
