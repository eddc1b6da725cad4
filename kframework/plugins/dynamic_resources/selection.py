"""The devices that the selectors of classes and claims match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from kframework.objects import DeviceClass, DeviceSelector, ResourceClaim
from kframework.objects.label_selectors import SelectorError
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.requests import RequestOption, claim_key
from kframework.plugins.dynamic_resources.slices import PoolDevice
from kframework.state.nodes import NodeInfo
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates

if TYPE_CHECKING:
    from kframework.plugins.dynamic_resources.device_selectors import CelDevice, CompiledSelector

#: The number of compiled expressions kept with their answers about existing devices, most recently used.
MAX_EXPRESSIONS = 1024

_RUNTIME_ERROR = "CEL runtime error: "
_MISSING_KEY_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue())"
    " or guarding the check with has() for optional fields"
)

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class SelectorEvaluator:
    """An evaluator of selectors on devices; answers about identical devices are cached while both exist."""

    def __init__(self, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._is_1_36 = gates.is_1_36
        self._expression = lru_cache(maxsize=MAX_EXPRESSIONS)(partial(_Expression, is_1_36=gates.is_1_36))

    def matches(self, option: RequestOption, device: PoolDevice, node: NodeInfo) -> bool:
        """Return whether class and request match a device that the node can access.

        AllocationError for an expression that does not compile, or fails on the device.
        """
        return (
            self.matches_class(device, option.device_class)
            and self._match(option.selectors, device, option.claim)
            and (not device.slice.per_device or _has_access(node, device))
        )

    def matches_class(self, device: PoolDevice, device_class: DeviceClass) -> bool:
        """Return whether a class matches a device; AllocationError as above."""
        return self._match(device_class.spec.selectors, device, device_class)

    def rejecting_clause(self, selectors: Sequence[DeviceSelector], device: PoolDevice) -> str:
        """Return the first clause of the selectors that rejects a device, "" if they match.

        A failing expression is returned as a whole, with its error.
        """
        for selector in selectors:
            expression = selector.cel.expression if selector.cel is not None else ""
            answer = self._evaluate(expression, device)
            if isinstance(answer, AllocationError):
                return f"{expression}, as it fails: {answer}"
            if not answer:
                parts = clauses(expression)
                return next((part for part in parts if self._evaluate(part, device) is False), expression)
        return ""

    def _match(
        self, selectors: Sequence[DeviceSelector], device: PoolDevice, owner: DeviceClass | ResourceClaim
    ) -> bool:
        for index, selector in enumerate(selectors):
            answer = self._evaluate(selector.cel.expression if selector.cel is not None else "", device)
            if isinstance(answer, AllocationError):
                name = f"class {owner.metadata.name}" if isinstance(owner, DeviceClass) else f"claim {claim_key(owner)}"
                raise AllocationError(f"{name}: {self._format_failure(index, device, str(answer))}")
            if not answer:
                return False
        return True

    def _format_failure(self, index: int, device: PoolDevice, failure: str) -> str:
        """Return the text about a selector that failed; since 1.37 it names the device, and helps with missing keys."""
        if self._is_1_36 or not failure.startswith(_RUNTIME_ERROR):
            return f"selector #{index}: {failure}"
        hint = _MISSING_KEY_HINT if "no such key:" in failure else ""
        return f"selector #{index} on device {'/'.join(device.id)}: {failure}{hint}"

    def _evaluate(self, expression: str, device: PoolDevice) -> bool | AllocationError:
        seen = device.content.cel_device
        if self._is_1_36 and seen.list_attribute:
            return AllocationError(f"{_RUNTIME_ERROR}attribute {seen.list_attribute}: unsupported attribute value")
        return self._expression(expression).evaluate(seen)


class _Expression:
    def __init__(self, text: str, *, is_1_36: bool) -> None:
        from kframework.cel.errors import CelError  # loaded with the first selector: most clusters have none
        from kframework.cel.types import ANY, DYN
        from kframework.plugins.dynamic_resources.device_selectors import compile_selector

        self._compiled: CompiledSelector | AllocationError
        try:
            self._compiled = compile_selector(text, ANY if is_1_36 else DYN)
        except CelError as error:
            self._compiled = AllocationError(f"CEL compile error: {error.text}")
        self._answers: WeakKeyDictionary[CelDevice, bool | AllocationError] = WeakKeyDictionary()

    def evaluate(self, device: CelDevice) -> bool | AllocationError:
        if isinstance(self._compiled, AllocationError):
            return self._compiled
        answer = self._answers.get(device)
        if answer is None:
            answer = self._answers[device] = _evaluate_selector(self._compiled, device)
        return answer


def _evaluate_selector(selector: CompiledSelector, device: CelDevice) -> bool | AllocationError:
    from kframework.cel.errors import CelError

    try:
        return selector.matches(device)
    except CelError as error:
        return AllocationError(f"{_RUNTIME_ERROR}{error.text}")


def _has_access(node: NodeInfo, device: PoolDevice) -> bool:
    try:
        return device.access.matches(node)
    except SelectorError as error:
        raise AllocationError(str(error)) from error


def clauses(expression: str) -> list[str]:
    """Return the clauses of an expression as written; a single one unless it is a conjunction of `&&`."""
    from kframework.cel.errors import CelError  # loaded with the first selector: most clusters have none

    try:
        ends = list(_conjunction_positions(expression))
    except CelError:
        ends = []
    bounds = [0, *(bound for end in ends for bound in (end, end + 2)), len(expression)]
    parts = (expression[begin:end].strip() for begin, end in zip(bounds[::2], bounds[1::2], strict=True))
    return [part for part in parts if part]


def _conjunction_positions(expression: str) -> Iterator[int]:
    """Yield the positions of the outermost `&&`; none if an operator with lower precedence is at that level."""
    from kframework.cel.lexer import tokenize

    positions, depth, before = list[int](), 0, ""
    for kind, _, position in tokenize(expression):
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0 and (kind == "||" or (kind == "?" and before != ".")):
            return
        if depth == 0 and kind == "&&":
            positions.append(position)
        before = kind
    yield from positions
