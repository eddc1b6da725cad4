"""A request about objects of a kind, with its query and body decoded and checked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from kframework.client import api_errors
from kframework.client.request_attributes import ResourcePath, is_flag_set
from kframework.client.transport import JSON, Request, User
from kframework.errors import ClusterError
from kframework.fake_api.resources import ApiResource
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.protobuf import PROTOBUF, decode_protobuf
from kframework.fake_api.wire.yaml_bodies import YAML, to_json
from kframework.objects.codec import describe_decode_error, without_nulls
from kframework.process.http.statuses import Subject

S = TypeVar("S", bound=msgspec.Struct)


def user_info(user: User) -> Data:
    info: Data = {"username": user.name, "groups": list(user.groups)}
    return info | {"uid": user.uid} if user.uid else info


class ApiCall(NamedTuple):
    """A request about objects of a kind."""

    path: ResourcePath
    resource: ApiResource
    query: Mapping[str, str]
    request: Request

    @property
    def subject(self) -> Subject:
        return Subject(self.resource.group, self.resource.kind.plural, self.path.name)

    @property
    def key(self) -> tuple[str, str]:
        return self.path.namespace, self.path.name

    @property
    def is_watch(self) -> bool:
        return self.request.method == "GET" and not self.path.name and is_flag_set(self.query, "watch")

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing may be written; ClusterError 422 for an unknown value."""
        directive = self.query.get("dryRun", "")
        if directive not in ("", "All"):
            raise self.invalid("dryRun", f'Unsupported value: "{directive:.100}": supported values: "All"')
        return directive == "All"

    @property
    def is_apply(self) -> bool:
        return self.request.content_type.startswith(APPLY_PATCH)

    @property
    def field_manager(self) -> str:
        """The name of the writer, by default its program; ClusterError 422 if it is invalid or missing."""
        manager = self.query.get("fieldManager", "")
        if self.is_apply and not manager:
            raise self.invalid("fieldManager", "Required value: is required for apply patch")
        if self.request.method == "PATCH" and not self.is_apply and "force" in self.query:
            raise self.invalid("force", "Forbidden: may not be specified for non-apply patch")
        if not manager:
            return _program_name(self.request.user_agent)
        if len(manager.encode()) > _MAX_MANAGER_BYTES:
            raise self.invalid("fieldManager", f"Too long: may not be more than {_MAX_MANAGER_BYTES} bytes")
        if not manager.isprintable():
            position, character = next((index, each) for index, each in enumerate(manager) if not each.isprintable())
            why = f"invalid character U+{ord(character):04X} (at position {position})"
            raise self.invalid("fieldManager", f"Invalid value: {msgspec.json.encode(manager).decode()}: {why}")
        return manager

    def invalid(self, option: str, why: str) -> ClusterError:
        return invalid_option(_OPTIONS.get(self.request.method, "UpdateOptions"), option, why)


def invalid_option(options: str, option: str, why: str) -> ClusterError:
    return ClusterError(f'{options}.meta.k8s.io "" is invalid: {option}: {why}', status=422, reason="Invalid")


#: Kinds of options by method; all other methods use an update's.
_OPTIONS = {"POST": "CreateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}

APPLY_PATCH = "application/apply-patch"

_MAX_MANAGER_BYTES = 128


@lru_cache(maxsize=64)
def _program_name(user_agent: str) -> str:
    """Return the program name of a user agent, `kubectl` for `kubectl/v1.36.2 (linux/amd64)`."""
    name = "".join(filter(str.isprintable, user_agent.partition("/")[0]))
    return name.encode()[:_MAX_MANAGER_BYTES].decode(errors="ignore") or "unknown"


class _Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """Options of a deletion; `grace_period_seconds` None means the object's own."""

    grace_period_seconds: int | None = None
    preconditions: _Preconditions = _Preconditions()
    dry_run: tuple[str, ...] = ()
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None

    @classmethod
    def from_call(cls, call: ApiCall) -> DeleteOptions:
        """Decode the options from the body, or from the query if it is empty; ClusterError 422 for invalid ones."""
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
        quoted = f"{msgspec.json.encode(policy).decode():.100}"
        if policy is not None and options.orphan_dependents is not None:
            problem = f"Invalid value: {quoted}: orphanDependents and deletionPropagation cannot be both set"
        elif policy not in (None, "Foreground", "Background", "Orphan"):
            problem = f'Unsupported value: {quoted}: supported values: "Background", "Foreground", "Orphan"'
        if problem:
            raise invalid_option("DeleteOptions", "propagationPolicy", problem)
        return options

    @property
    def policy(self) -> str | None:
        if self.orphan_dependents is not None:
            return "Orphan" if self.orphan_dependents else "Background"
        return self.propagation_policy


def to_json_request(request: Request) -> Request:
    if request.content_type == JSON:
        return request
    media_type = request.content_type.partition(";")[0].strip().lower()
    if media_type == YAML:
        return replace(request, body=to_json(request.body), content_type=JSON)
    return replace(request, body=to_json(request.body)) if media_type.startswith(APPLY_PATCH) else request


def decode_object(request: Request) -> Data:
    """Decode the object in the body, without nulls; ClusterError 400, or 415 for an unsupported encoding."""
    match request.content_type.partition(";")[0].strip().lower():
        case "application/json" | "":
            return decode_json_object(request.body)
        case media_type if media_type == PROTOBUF:
            return decode_protobuf(request.body)
        case other:
            message = (
                "the body of the request was in an unknown format - accepted media types include: application/json,"
                f" application/yaml (it was {other:.100}; of a client of Kubernetes, set contentType: application/json)"
            )
            raise ClusterError(message, status=415, reason="UnsupportedMediaType")


def decode_json_object(body: bytes) -> Data:
    """Decode a JSON object without nulls; raises ClusterError 400."""
    try:
        data = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise api_errors.bad_request(f"the body of the request is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise api_errors.bad_request("the body of the request is not a JSON object")
    return cast("Data", without_nulls(data)) if b"null" in body else data


def read_body(request: Request, struct: type[S]) -> S:
    """Decode a body that is not stored; ClusterError 400, or 415 for an unsupported encoding."""
    try:
        return msgspec.convert(decode_object(request), struct)
    except msgspec.ValidationError as error:
        raise api_errors.bad_request(
            f"cannot decode the body of the request: {describe_decode_error(error)}"
        ) from error
