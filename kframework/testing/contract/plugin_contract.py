"""The contract as a class of tests.

    class TestFewestPods(PluginContract):
        plugin = FewestPods
        args = {"maxPodsPerNode": 3}

Each promise of the contract is a test of its own; those that the plugin has no hook for are not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from kframework.errors import ConfigError
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject, Node, Pod
from kframework.testing.contract.probe import ContractViolation, PluginUnderTest
from kframework.testing.contract.promises import PROMISES
from kframework.testing.contract.side_effects import skip_sleep
from kframework.testing.single_plugin import SourceValues
from kframework.values.feature_gates import MINORS


class PluginContract:
    """Tests, to be inherited, that a plugin keeps the contract, on `examples` random clusters.

    `args` are spelled as in YAML; `other_plugins` names those of the profile where wake-ups and evictions are checked.
    `nodes`, `pods` and `objects` (of all other kinds) are mixed into the clusters: give some that matter to the plugin.
    `sources` is what the plugin's sources hold, by their names. The emulated `minors` of Kubernetes take turns,
    with these `feature_gates`. The same `seed` makes the same calls. TypeError for a class of tests that names no
    plugin.
    """

    plugin: ClassVar[type[Plugin[Any]]]
    args: ClassVar[Mapping[str, object]] = {}
    other_plugins: ClassVar[Sequence[str]] = ()
    nodes: ClassVar[Sequence[Node]] = ()
    pods: ClassVar[Sequence[Pod]] = ()
    objects: ClassVar[Sequence[ApiObject]] = ()
    sources: ClassVar[SourceValues] = {}
    minors: ClassVar[Sequence[str]] = MINORS
    feature_gates: ClassVar[Mapping[str, bool]] = {}
    examples: ClassVar[int] = 12
    seed: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        plugin = getattr(cls, "plugin", None)
        if plugin is None and not cls.__name__.startswith("Test"):
            return  # subclasses name the plugin
        if not isinstance(plugin, type) or not issubclass(plugin, Plugin):
            raise TypeError(f"{cls.__name__}: `plugin` must be a plugin class, as in `plugin = Mine`, not {plugin!r}")
        for test, promise in PROMISES.items():
            if not promise.applies_to(plugin):
                setattr(cls, test, None)  # what cannot be called is not collected
            elif getattr(cls, test) is None:
                setattr(cls, test, next(own for each in cls.__mro__ if (own := vars(each).get(test))))

    def test_scalar_and_columnar_forms_agree(self) -> None:
        """The columnar forms answer like the scalar ones."""
        self._check("test_scalar_and_columnar_forms_agree")

    def test_added_pods_count_like_pods_on_the_node(self) -> None:
        """`filter_more` answers for added pods as `filter` does once they are on the node."""
        self._check("test_added_pods_count_like_pods_on_the_node")

    def test_cached_answers_stay_valid(self) -> None:
        """What `sign` and `reads` leave out changes no answer."""
        self._check("test_cached_answers_stay_valid")

    def test_scores_are_in_range(self) -> None:
        """Final scores lie in 0..100."""
        self._check("test_scores_are_in_range")

    def test_unreserve_undoes_reserve(self) -> None:
        """`unreserve` undoes `reserve`, once, twice, and where nothing was reserved."""
        self._check("test_unreserve_undoes_reserve")

    def test_remove_pod_undoes_add_pod(self) -> None:
        """`remove_pod` undoes `add_pod`, and both keep true what `pre_filter` stored."""
        self._check("test_remove_pod_undoes_add_pod")

    def test_sort_keys_are_total_and_stable(self) -> None:
        """Any two pods have an order, and keep it."""
        self._check("test_sort_keys_are_total_and_stable")

    def test_hooks_have_no_side_effects(self) -> None:
        """Hooks neither block the loop nor change what they get."""
        self._check("test_hooks_have_no_side_effects")

    def test_no_wake_up_is_lost(self) -> None:
        """No pod sleeps through the event that makes it schedulable."""
        self._check("test_no_wake_up_is_lost")

    def test_victims_make_room(self) -> None:
        """Once the victims of a preemption have left, the pod can go to its node."""
        self._check("test_victims_make_room")

    def test_new_instance_answers_alike(self) -> None:
        """A reload, which replaces the plugin's instance and closes the old one, changes no answer."""
        self._check("test_new_instance_answers_alike")

    def test_replay_decides_alike(self) -> None:
        """A replay decides as its recording did."""
        self._check("test_replay_decides_alike")

    def _check(self, test: str) -> None:
        __tracebackhide__ = True
        fields = {name: getattr(self, name) for name in PluginUnderTest.__struct_fields__}
        try:
            with skip_sleep(self.plugin):
                PROMISES[test].check(PluginUnderTest(**fields))
        except ContractViolation as violation:
            # The checker's own frames do not help an author; the cause, which a hook raised, stays.
            raise violation.with_traceback(None) from violation.__cause__
        except ConfigError as error:
            raise error.with_traceback(None) from None  # its message contains those of its causes
