"""What a bound pod costs the client of a cluster, over HTTP, beside two bare aiohttp POSTs.

The fake API runs in another process and is not counted. Per pod the client
learns of it, binds it, writes an Event, and sees it bound and running: two POSTs and three lines of a watch. The bare
POSTs carry the same bodies to the same server in the same run; both figures are the processor time of this process.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from random import Random
from time import process_time

from kframework.client.event_record import EventRecord, PodReference, SeriesKey
from kframework.client.kube import ConnectionSettings, connect
from kframework.client.kube_cluster import KubeCluster
from kframework.clock import SystemClock
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import Kubelet
from kframework.objects import Container, Node, ObjectMeta, Pod, PodSpec
from kframework.objects.codec import encode
from kframework.state.inbox import Message, Upserted

#: How many pods are being bound at the same time, and how many come every TICK seconds.
MAX_CONCURRENT = 20
ARRIVING = 20
TICK = 0.04


def _pod(name: str) -> Pod:
    spec = PodSpec(containers=(Container(name="main", image="registry.example/team/app:v1"),))
    labels = {"app": "web", "pod-template-hash": "6d4cf56db6"}
    return Pod(metadata=ObjectMeta(name=name, namespace="default", labels=labels), spec=spec)


def _event_record(pod: str, uid: str) -> EventRecord:
    series_key = SeriesKey("default-scheduler", "Scheduled", "Binding", False, PodReference("default", pod, uid))
    return EventRecord(series_key, f"Successfully assigned default/{pod} to node-1", 1767225600.0, 0, 1767225600.0)


# --- the server's process ---------------------------------------------------------------------------------------------


def _serve(pipe: Pipe) -> None:
    """Serve until the pipe closes; create as many pods as it says, under the prefix it says."""
    asyncio.run(_serve_cluster(pipe))


async def _serve_cluster(pipe: Pipe) -> None:
    from kframework.fake_api.server import ApiServer
    from kframework.fake_api.web import serve

    clock = SystemClock()
    cluster = MemoryCluster(clock, [Node(metadata=ObjectMeta(name="node-1"))])
    async with serve(ApiServer(cluster, clock)) as port, asyncio.TaskGroup() as tasks:
        tasks.create_task(Kubelet(cluster, clock).run())
        pipe.send(port)
        while True:
            prefix, pods = await asyncio.to_thread(pipe.recv)
            for number in range(pods):
                cluster.add(_pod(f"{prefix}-{number}"))
                if number % ARRIVING == 0:
                    await asyncio.sleep(TICK)
            uids = {pod.metadata.name: pod.metadata.uid for pod in cluster.objects(Pod)}
            await asyncio.to_thread(pipe.send, {name: uid for name, uid in uids.items() if name.startswith(prefix)})


@contextmanager
def _run_server() -> Iterator[tuple[int, Pipe]]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv(), ours
    finally:
        process.kill()
        process.join()


# --- this process -----------------------------------------------------------------------------------------------------


async def _bind_with_posts(port: int, pipe: Pipe, prefix: str, pods: int) -> float:
    """Bind the pods with two POSTs each and nothing else; return the microseconds per pod."""
    import aiohttp

    pipe.send((prefix, pods))
    uids = await asyncio.to_thread(pipe.recv)
    core, group = (f"http://127.0.0.1:{port}/{api}/namespaces/default" for api in ("api/v1", "apis/events.k8s.io/v1"))
    requests = [
        (
            (f"{core}/pods/{pod}/binding", _binding(pod, uid)),
            (f"{group}/events", encode(_event_record(pod, uid).event())),
        )
        for pod, uid in uids.items()
    ]
    async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:

        async def post(url: str, body: bytes) -> None:
            async with session.post(url, data=body) as response:
                await response.read()
                assert response.status == 201, await response.text()

        async def work() -> None:
            while requests:
                for url, body in requests.pop():
                    await post(url, body)

        began = process_time()
        await asyncio.gather(*(work() for _ in range(MAX_CONCURRENT)))
        return (process_time() - began) / pods * 1e6


def _binding(pod: str, uid: str) -> bytes:
    return (
        b'{"metadata":{"namespace":"default","name":"%b","uid":"%b"},"target":{"name":"node-1","kind":"Node",'
        b'"apiVersion":"v1"},"kind":"Binding","apiVersion":"v1"}' % (pod.encode(), uid.encode())
    )


async def _bind_with_client(kubeconfig: str, pipe: Pipe, prefix: str, pods: int) -> float:
    """Follow the pods and bind them as they come; return the microseconds per pod."""
    transport = await connect(ConnectionSettings(kubeconfig=kubeconfig))
    cluster = KubeCluster(transport, SystemClock(), random=Random(0))
    arrived: asyncio.Queue[Pod] = asyncio.Queue()
    synced, done, running = asyncio.Event(), asyncio.Event(), 0

    def offer(message: Message) -> None:
        nonlocal running
        if isinstance(message, Upserted) and isinstance(message.obj, Pod):
            pod = message.obj
            if not pod.spec.node_name:
                arrived.put_nowait(pod)
            elif pod.status.phase == "Running" and pod.metadata.name.startswith(prefix):
                running += 1
                if running == pods:
                    done.set()
        else:
            synced.set()

    async def work() -> None:
        while True:
            metadata = (await arrived.get()).metadata
            await cluster.bind("default", metadata.name, metadata.uid, "node-1")
            await cluster.record_event(_event_record(metadata.name, metadata.uid))

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(cluster.watch([Pod], offer)),
            *(group.create_task(work()) for _ in range(MAX_CONCURRENT)),
        ]
        await synced.wait()
        began = process_time()
        pipe.send((prefix, pods))
        await done.wait()
        took = process_time() - began
        await asyncio.to_thread(pipe.recv)
        for task in tasks:
            task.cancel()
    await transport.close()
    return took / pods * 1e6


def measure(pods: int, rounds: int) -> tuple[float, float]:
    """Measure both in turn; return the best of each, the bare POSTs first, in microseconds per pod."""
    bare, client = [], []
    with _run_server() as (port, pipe), tempfile.TemporaryDirectory() as folder:
        kubeconfig = str(Path(folder) / "config")
        Path(kubeconfig).write_text(_KUBECONFIG.format(port=port))
        for number in range(rounds):
            bare.append(asyncio.run(_bind_with_posts(port, pipe, f"bare{number}", pods)))
            client.append(asyncio.run(_bind_with_client(kubeconfig, pipe, f"pod{number}", pods)))
    return min(bare), min(client)


_KUBECONFIG = """\
current-context: bench
contexts: [{{name: bench, context: {{cluster: bench}}}}]
clusters: [{{name: bench, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
"""
