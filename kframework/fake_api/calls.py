"""What a request asks for: the query and the body, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from kframework.client import api_errors
from kframework.client.request_attributes import ResourcePath, is_flag_set
from kframework.client.transport import JSON, Request
from kframework.errors import ClusterError
from kframework.fake_api.served import Resource
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.protobuf import PROTOBUF, from_protobuf
from kframework.fake_api.wire.yaml_bodies import YAML, json_of
from kframework.objects.codec import without_nulls
from kframework.process.http.statuses import Subject

S = TypeVar("S", bound=msgspec.Struct)


class Call(NamedTuple):
    """A request about objects of a kind."""

    path: ResourcePath
    resource: Resource
    query: Mapping[str, str]
    request: Request

    @property
    def subject(self) -> Subject:
        """What the call is about, as a Status names it."""
        return Subject(self.resource.group, self.resource.kind.plural, self.path.name)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name of the object."""
        return self.path.namespace, self.path.name

    @property
    def is_watch(self) -> bool:
        """Whether the client wants to be told what happens."""
        return self.request.method == "GET" and not self.path.name and is_flag_set(self.query, "watch")

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing must be written; ClusterError 422 for a kind of dry run that there is not."""
        wanted = self.query.get("dryRun", "")
        if wanted not in ("", "All"):
            raise self.invalid("dryRun", f'Unsupported value: "{wanted:.100}": supported values: "All"')
        return wanted == "All"

    @property
    def is_apply(self) -> bool:
        """Whether the body is a configuration that is to be applied."""
        return self.request.content_type.startswith(APPLY_PATCH)

    @property
    def field_manager(self) -> str:
        """Who writes: as he says, or by his program; ClusterError 422 if he cannot be called that, or must say it."""
        said = self.query.get("fieldManager", "")
        if self.is_apply and not said:
            raise self.invalid("fieldManager", "Required value: is required for apply patch")
        if self.request.method == "PATCH" and not self.is_apply and "force" in self.query:
            raise self.invalid("force", "Forbidden: may not be specified for non-apply patch")
        if not said:
            return _program(self.request.user_agent)
        if len(said.encode()) > _LONGEST_MANAGER:
            raise self.invalid("fieldManager", f"Too long: may not be more than {_LONGEST_MANAGER} bytes")
        if not said.isprintable():
            place, character = next((place, each) for place, each in enumerate(said) if not each.isprintable())
            why = f"invalid character U+{ord(character):04X} (at position {place})"
            raise self.invalid("fieldManager", f"Invalid value: {msgspec.json.encode(said).decode()}: {why}")
        return said

    def invalid(self, option: str, why: str) -> ClusterError:
        """Say that an option of the query has a value that it cannot have."""
        options = _OPTIONS.get(self.request.method, "UpdateOptions")
        return ClusterError(f'{options}.meta.k8s.io "" is invalid: {option}: {why}', status=422, reason="Invalid")


#: What an API server calls the options of a request; those of all others are an update's.
_OPTIONS = {"POST": "CreateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}

#: How the types of bodies begin that are applied.
APPLY_PATCH = "application/apply-patch"

#: How long the name of who writes may be, in bytes.
_LONGEST_MANAGER = 128


@lru_cache(maxsize=64)
def _program(user_agent: str) -> str:
    """Return what a user agent begins with, `kubectl` of `kubectl/v1.36.2 (linux/amd64)`."""
    name = "".join(filter(str.isprintable, user_agent.partition("/")[0]))
    return name.encode()[:_LONGEST_MANAGER].decode(errors="ignore") or "unknown"


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    """What must be true of the object that is to go."""

    uid: str = ""
    resource_version: str = ""


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """How to delete: `grace_period_seconds` None means what the object says."""

    grace_period_seconds: int | None = None
    preconditions: Preconditions = Preconditions()
    dry_run: tuple[str, ...] = ()
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None

    @classmethod
    def of(cls, call: Call) -> DeleteOptions:
        """Read them from the body, or from the query if there is none; ClusterError 422 for what makes no sense."""
        if call.request.body:
            options = read_body(call.request, cls)
        else:
            seconds = call.query.get("gracePeriodSeconds", "")
            options = cls(
                grace_period_seconds=int(seconds) if seconds.isdecimal() else None,
                propagation_policy=call.query.get("propagationPolicy"),
                orphan_dependents=is_flag_set(call.query, "orphanDependents")
                if "orphanDependents" in call.query
                else None,
            )
        policy, problem = options.propagation_policy, ""
        shown = f"{msgspec.json.encode(policy).decode():.100}"
        if policy is not None and options.orphan_dependents is not None:
            problem = f"Invalid value: {shown}: orphanDependents and deletionPropagation cannot be both set"
        elif policy not in (None, "Foreground", "Background", "Orphan"):
            problem = f'Unsupported value: {shown}: supported values: "Background", "Foreground", "Orphan"'
        if problem:
            message = f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {problem}'
            raise ClusterError(message, status=422, reason="Invalid")
        return options

    @property
    def policy(self) -> str | None:
        """What becomes of the object's dependents; None leaves it to the object."""
        if self.orphan_dependents is not None:
            return "Orphan" if self.orphan_dependents else "Background"
        return self.propagation_policy


def in_json(request: Request) -> Request:
    """Return a request with its body in JSON if that comes in YAML; ClusterError 400 for one that cannot be read."""
    if request.content_type == JSON:
        return request
    media_type = request.content_type.partition(";")[0].strip().lower()
    if media_type == YAML:
        return replace(request, body=json_of(request.body), content_type=JSON)
    return replace(request, body=json_of(request.body)) if media_type.startswith(APPLY_PATCH) else request


def object_in(request: Request) -> Data:
    """Read the object in the body, without what is null; ClusterError 400, or 415 for an encoding that is not read."""
    match request.content_type.partition(";")[0].strip().lower():
        case "application/json" | "":
            return json_object(request.body)
        case media_type if media_type == PROTOBUF:
            return from_protobuf(request.body)
        case other:
            message = (
                "the body of the request was in an unknown format - accepted media types include: application/json,"
                f" application/yaml (it was {other:.100}; of a client of Kubernetes, set contentType: application/json)"
            )
            raise ClusterError(message, status=415, reason="UnsupportedMediaType")


def json_object(body: bytes) -> Data:
    """Read a JSON object without what is null; ClusterError 400 for anything else."""
    try:
        data = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise api_errors.bad_request(f"the body of the request is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise api_errors.bad_request("the body of the request is no JSON object")
    return cast("Data", without_nulls(data)) if b"null" in body else data


def read_body(request: Request, struct: type[S]) -> S:
    """Read a body that is not stored; ClusterError 400, or 415 for an encoding that is not read."""
    try:
        return msgspec.convert(object_in(request), struct)
    except msgspec.ValidationError as error:
        raise api_errors.bad_request(f"the body of the request cannot be read: {error}") from error
