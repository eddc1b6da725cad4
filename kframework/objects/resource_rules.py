"""Rules for the resources that pods request and that policies limit, in the words of Kubernetes' validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from kframework.objects.meta import RawQuantity, ResourceList
from kframework.objects.pod import Container, PodSpec, Resources
from kframework.objects.problem import FieldPath, MapKey, Problem, forbidden, invalid, required
from kframework.objects.quantity import Quantity, QuantityError
from kframework.objects.requests import aggregate
from kframework.objects.syntax import qualified_name

_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD = _OF_CONTAINERS | frozenset(
    "pods resourcequotas services replicationcontrollers secrets configmaps persistentvolumeclaims storage"
    " services.nodeports services.loadbalancers requests.cpu requests.memory requests.storage limits.cpu limits.memory"
    " requests.ephemeral-storage limits.ephemeral-storage".split()
)
_HUGE_PAGES = "hugepages-"


@lru_cache(maxsize=4096)
def name_messages(name: str) -> tuple[str, ...]:
    """Return what is wrong with the name of a container's resource."""
    if messages := qualified_name(name):
        return messages
    if "/" in name:
        is_valid = _is_native(name) or _is_extended(name)
        return () if is_valid else ("doesn't follow extended resource name standard",)
    if name in _OF_CONTAINERS or name.startswith(_HUGE_PAGES):
        return ()
    message = "must be a standard resource for containers"
    return (message,) if name in _STANDARD else ("must be a standard resource type or fully qualified", message)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    return not (_is_native(name) or name.startswith("requests.") or qualified_name(f"requests.{name}"))


def _may_be_overcommitted(name: str) -> bool:
    return _is_native(name) and not name.startswith(_HUGE_PAGES)


def list_problems(path: FieldPath, resources: ResourceList) -> Iterator[Problem]:
    """Yield the problems of resource names, and of quantities by themselves."""
    for name, quantity in resources.items():
        location = *path, MapKey(name)
        yield from (invalid(location, name, each) for each in name_messages(name))
        amount = parse(quantity)
        if amount is None:
            continue
        if amount.sign < 0:
            yield invalid(location, str(quantity), "must be greater than or equal to 0")
        if _is_extended(name) and amount.nano % 1_000_000_000:
            yield invalid(location, quantity, "must be an integer")
        if name.startswith(_HUGE_PAGES):
            size = parse(name.removeprefix(_HUGE_PAGES))
            if size is None or size.nano <= 0 or amount.nano % size.nano:
                yield invalid(location, str(amount), f"{amount} is not positive integer multiple of {name}")


def resources_problems(resources: Resources) -> Iterator[Problem]:
    """Yield the problems of requests and limits."""
    yield from list_problems(("limits",), resources.limits)
    yield from list_problems(("requests",), resources.requests)
    for name, quantity in resources.requests.items():
        amount, limit = parse(quantity), parse(resources.limits.get(name))
        if amount is not None and limit is not None:
            if amount != limit and not _may_be_overcommitted(name):
                yield invalid(("requests",), str(amount), f"must be equal to {name} limit of {limit}")
            elif amount.nano > limit.nano:
                yield invalid(("requests",), str(amount), f"must be less than or equal to {name} limit of {limit}")


def missing_resources_problems(resources: Resources) -> Iterator[Problem]:
    """Yield resources without those that they need; no scheduler depends on it, and files often lack them."""
    for name in resources.requests:
        if name not in resources.limits and not _may_be_overcommitted(name):
            yield required(("limits",), "Limit must be set for non overcommitable resources")
    names = {*resources.limits, *resources.requests}
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        yield forbidden((), "HugePages require cpu or memory")


def pod_resources_problems(spec: PodSpec, own: Resources) -> Iterator[Problem]:
    """Yield the problems of a pod's own resources, with those of its containers."""
    yield from resources_problems(own)
    for name, total in aggregate(spec, _requested).items():
        amount = parse(own.requests.get(name))
        if amount is not None and total > amount.nano:
            requested = Quantity(total, amount.format)
            detail = f"must be greater than or equal to aggregate container requests of {requested}"
            yield invalid(("requests", MapKey(name)), str(amount), detail)
    for index, container in enumerate(spec.containers):
        for name, quantity in container.resources.limits.items():
            amount, limit = parse(quantity), parse(own.limits.get(name))
            if amount is not None and limit is not None and amount.nano > limit.nano:
                path = ("containers", index, MapKey(name), "limits")
                yield invalid(path, str(amount), f"must be less than or equal to pod limits of {limit}")


def _requested(container: Container) -> Mapping[str, int]:
    amounts = {name: parse(quantity) for name, quantity in container.resources.requests.items()}
    return {name: amount.nano for name, amount in amounts.items() if amount is not None}


@lru_cache(maxsize=4096)
def parse(quantity: RawQuantity | None) -> Quantity | None:
    """Read a quantity; None if it is absent, or does not parse, which is reported elsewhere."""
    try:
        return None if quantity is None else Quantity.parse(str(quantity))
    except QuantityError:
        return None
