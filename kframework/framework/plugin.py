"""What a plugin is made of: its base class, its Args, the marker of its hooks, and the answers that are no Status.

    class FewestPods(Plugin):
        \"\"\"Prefer the node that runs the fewest pods.\"\"\"

        name = "FewestPods"
        reads = "pods"

        @hookimpl
        def score(self, state, pod, node):
            return -len(node.pods)

        @hookimpl
        def normalize_score(self, state, pod, scores):
            return min_max(scores)

The hooks, one by one, stand in `kframework.framework.hookspecs`; the door back into the scheduler in
`kframework.framework.handle`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec
import numpy as np
import pluggy
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from kframework.framework.status import Code, Status

if TYPE_CHECKING:
    from kframework.framework.handle import Handle
    from kframework.objects import ApiObject
    from kframework.state.nodes import NodeTable
    from kframework.state.pods import PodInfo

#: Marks a method as the implementation of a hook.
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker("kframework")

#: The largest score of a node after normalising; the smallest is 0.
MAX_SCORE = 100

#: What a plugin looks at beside the pod: the Node object, or its pods too; None: outside data as well.
Reads = Literal["node", "pods"] | None

#: Rows of the NodeTable, as a slice or as row numbers (int64).
Rows = slice | NDArray[np.int64]

#: What a plugin may do to a kind beyond seeing it, as RBAC calls it; `patch_status` is to patch its status.
Verb = Literal["create", "patch", "patch_status", "delete"]

#: One integer per row (int64).
Scores = NDArray[np.int64]


class PluginArgs(BaseModel):
    """The configuration of a plugin, as written under `pluginConfig[].args`.

    Derive from it and name fields in snake_case; the file spells them in camelCase. Unknown fields are refused.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, arbitrary_types_allowed=True
    )


class Watch(msgspec.Struct, frozen=True):
    """A kind that a plugin needs to see: reflectors, RBAC rules, recordings and the fake API follow from it.

    `kind` is a struct of `kframework.objects`, or one of your own that `kframework.objects.kind` declares; `verbs` are
    what `handle.api` is to do to it, beyond the get, list and watch that seeing it takes.
    """

    kind: type[ApiObject]
    verbs: tuple[Verb, ...] = ()


class Plugin:
    """A scheduling plugin.

    One instance is made per profile; instances are compared by identity.

    The class attributes tell the engine what it may do with the answers:

    `name`               the plugin's name in the configuration, the same as its entry point's.
    `Args`               the model of its arguments; the plain PluginArgs accepts none.
    `reads`              what `filter` and `score` look at beside the pod: `"node"` = the Node object only, `"pods"` =
                         the node's pods and resources too. Declared, the answers are remembered until that changes.
                         None = outside data as well: asked in every cycle (or say through the handle what changed).
    `watches`            the kinds it needs beside pods and nodes.
    `parallel_pre_bind`  whether `pre_bind` may run beside its neighbours that allow it too.

    A plugin that declares `reads` and no `sign` is signed by the whole pod except name, hostname, uid and times, which
    it may not read.
    """

    name: ClassVar[str] = ""
    Args: ClassVar[type[PluginArgs]] = PluginArgs
    reads: ClassVar[Reads] = None
    watches: ClassVar[tuple[Watch, ...]] = ()
    parallel_pre_bind: ClassVar[bool] = False

    args: PluginArgs
    handle: Handle

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    async def start(self) -> None:
        """Begin work that needs I/O, before the first pod is scheduled."""

    async def close(self) -> None:
        """Release what `start` took, at shutdown."""

    def __repr__(self) -> str:
        return f"<{self.name or type(self).__name__}>"


class Diagnosis:
    """Why no node was feasible: a rejection per node, put into words when it is asked for.

    `rejections` holds one integer for each row, equal where nodes say the same, and `status_of` knows its meaning.
    `rejectors` are the plugins that rejected the pod somewhere, `pre_filter_message` is set when a `pre_filter`
    rejected it as a whole.
    """

    __slots__ = ("_rejections", "_status_of", "nodes", "pre_filter_message", "rejectors")

    def __init__(
        self,
        nodes: NodeTable,
        rejections: Scores,
        status_of: Callable[[int], Status],
        rejectors: Sequence[str],
        pre_filter_message: str = "",
    ) -> None:
        self.nodes: NodeTable = nodes
        self._rejections = rejections
        self._status_of = status_of
        self.rejectors: Sequence[str] = rejectors
        self.pre_filter_message: str = pre_filter_message

    def __getitem__(self, row: int) -> Status:
        """Return the first rejection to the node of this row, in configured order."""
        return self._status_of(int(self._rejections[row]))

    def rows(self, code: Code) -> NDArray[np.int64]:
        """Return the rows whose rejection has this code, in the order of the nodes."""
        order = self.nodes.order
        rejections = self._rejections[order]
        alike = [each for each in np.unique(rejections).tolist() if self._status_of(each).code == code]
        return order[np.isin(rejections, alike)]


class Candidate(msgspec.Struct, frozen=True):
    """A node on which the pod would fit if these pods went away."""

    node: str
    victims: tuple[PodInfo, ...]
    pdb_violations: int = 0


class Preempt(msgspec.Struct, frozen=True):
    """`post_filter`'s answer "evict": the engine takes the candidate of the smallest key, nominates and evicts."""

    candidates: tuple[Candidate, ...]
    key: Callable[[Candidate], Hashable]
    status: Status = Status(Code.SUCCESS)


class Nominate(msgspec.Struct, frozen=True):
    """`post_filter`'s answer "keep this node free for the pod": it is tried first in the next attempt."""

    node: str
    status: Status = Status(Code.SUCCESS)


class ClearNomination(msgspec.Struct, frozen=True):
    """`post_filter`'s answer "the pod has no node to wait for": an earlier nomination is taken back."""

    status: Status = Status(Code.UNSCHEDULABLE)


#: What `post_filter` may answer beside a Status.
PluginResult = Preempt | Nominate | ClearNomination


def min_max(scores: Scores) -> Scores | int:
    """Stretch scores linearly so that the smallest becomes 0 and the largest 100; equal ones all become 0."""
    low, high = int(scores.min()), int(scores.max())
    return 0 if low == high else (scores - low) * MAX_SCORE // (high - low)


def default_normalize(scores: Scores, *, reverse: bool = False) -> Scores | int:
    """Scale scores to 0..100 by their maximum, `reverse` turning the best into the worst (kube-scheduler's own).

    With a maximum of 0 they stay as they are, or all become 100 when reversed.
    """
    high = int(scores.max())
    if high == 0:
        return MAX_SCORE if reverse else 0
    scaled = scores * MAX_SCORE // high
    return MAX_SCORE - scaled if reverse else scaled


#: What `pre_filter` may answer beside a Status: the names of the nodes worth looking at.
NodeNames = frozenset[str] | set[str]
