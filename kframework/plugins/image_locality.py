"""ImageLocality: prefer nodes that already have large images of the pod, more so for images on many nodes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import Handle
from kframework.framework.plugin import Plugin, PluginArgs, Reads, SignReads, hookimpl
from kframework.objects import PodSpec
from kframework.state.counters import ImageState
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.values.scores import MAX_SCORE, Rows, Scores

#: The minimum size of images that counts, and the maximum per container, in bytes.
_MIN_SIZE, _MAX_SIZE = 23 << 20, 1000 << 20


class ImageLocality(Plugin):
    """Score by the bytes of the pod's images that need not be pulled, each image weighed by its share of the nodes."""

    name = "ImageLocality"
    reads: ClassVar[Reads] = "node"
    sign_reads: ClassVar[SignReads] = ()

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._count_sources = _images_1_36 if handle.feature_gates.is_1_36 else _images_1_37

    @hookimpl
    def sign(self, pod: PendingPod) -> tuple[int, tuple[str, ...]]:
        return self._images_of(pod)

    def _images_of(self, pod: PendingPod) -> tuple[int, tuple[str, ...]]:
        """Return how many sources of images the pod has, and the names of all images, with repetitions."""
        return pod.template.cached(ImageLocality, self._count_sources)

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        sources, names = self._images_of(pod)
        nodes, row, total = node.table, node.row, 0
        for name in names:
            image = nodes.images.get(name)
            if image is not None and image.is_on(row):
                total += _scaled_size(image, nodes)
        limit = _MAX_SIZE * sources
        return (max(_MIN_SIZE, min(total, limit)) - _MIN_SIZE) * MAX_SCORE // (limit - _MIN_SIZE)

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores | int:
        sources, names = self._images_of(pod)
        images = [image for name in names if (image := nodes.images.get(name)) is not None]
        if not images:
            return 0
        totals = np.zeros(nodes.capacity, dtype=np.int64)
        for image in images:
            totals += _scaled_size(image, nodes) * image.column(nodes.capacity)
        limit = _MAX_SIZE * sources
        return (np.maximum(_MIN_SIZE, np.minimum(totals[rows], limit)) - _MIN_SIZE) * MAX_SCORE // (limit - _MIN_SIZE)


def _scaled_size(image: ImageState, nodes: NodeTable) -> int:
    return int(image.size * (image.node_count / len(nodes)))


def _images_1_36(spec: PodSpec) -> tuple[int, tuple[str, ...]]:
    """Count the containers only."""
    return len(spec.init_containers) + len(spec.containers), _image_names(spec)


def _images_1_37(spec: PodSpec) -> tuple[int, tuple[str, ...]]:
    """Count containers and image volumes."""
    names = _image_names(spec)
    return len(names), names


def _image_names(spec: PodSpec) -> tuple[str, ...]:
    names = [container.image for container in (*spec.init_containers, *spec.containers)]
    names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    # Nodes report names with a tag, `latest` if there is none.
    tagged = (name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in names)
    return tuple(sorted(tagged))
