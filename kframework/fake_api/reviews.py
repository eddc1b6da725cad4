"""Reviews: objects that are only questions, who somebody is and what he may do; they are answered and not kept."""

from __future__ import annotations

import msgspec

from kframework.client import api_errors
from kframework.client.rbac import Rule
from kframework.client.request_attributes import Attributes
from kframework.client.transport import Response
from kframework.client.users import ADMIN, User
from kframework.errors import ClusterError
from kframework.fake_api.access import Authorizer
from kframework.fake_api.authentication import Authenticator
from kframework.fake_api.calls import Call, object_in
from kframework.fake_api.service_account_tokens import AUDIENCE
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, text, value
from kframework.process.http.statuses import answered

#: For so many audiences a token is looked at.
_AUDIENCES = 64


def review(call: Call, authorizer: Authorizer, authenticator: Authenticator) -> Response:
    """Answer a review; ClusterError 400 if its body cannot be read, or does not ask."""
    asked, kind = object_in(call.request), call.resource.kind
    asks = call.request.user or ADMIN  # a program of this process may do anything
    match kind.name:
        case "SelfSubjectReview":
            status: Data = {"userInfo": _user_info(asks)}
        case "TokenReview":
            status = _token_status(asked, authenticator)
        case "SelfSubjectRulesReview":
            status = _listed(authorizer.rules(asks, text(asked, "spec.namespace")))
        case _:
            user = asks if kind.name.startswith("Self") else _subject(asked)
            status = _decision(authorizer, user, _wanted(asked))
    named = {"kind": kind.name, "apiVersion": kind.api_version}
    return answered(named | asked | {"metadata": mapping(asked, "metadata"), "status": status}, 201)


def _token_status(asked: Data, authenticator: Authenticator) -> Data:
    """Say whose a token is; it is for this server, if it is not said for whom it is to be."""
    token, wanted = text(asked, "spec.token"), value(asked, "spec.audiences")
    if not token:
        raise api_errors.bad_request("token is required for TokenReview in authentication")
    audiences = [str(each) for each in wanted[:_AUDIENCES]] if isinstance(wanted, list) and wanted else [AUDIENCE]
    found = {each: user for each in audiences if (user := authenticator.find(token, each)) is not None}
    if not found:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": _user_info(next(iter(found.values()))), "audiences": list(found)}


def _user_info(user: User) -> Data:
    info: Data = {"username": user.name, "groups": list(user.groups)}
    return info | {"uid": user.uid} if user.uid else info


def _listed(rules: list[Rule]) -> Data:
    """List rights as the review has them: those to objects, and those to other paths."""
    written = [msgspec.to_builtins(rule) for rule in rules]
    about_paths = [rule for rule in written if "nonResourceURLs" in rule]
    about_objects = [rule for rule in written if "nonResourceURLs" not in rule]
    return {"resourceRules": about_objects, "nonResourceRules": about_paths, "incomplete": False}


def _subject(asked: Data) -> User:
    groups = value(asked, "spec.groups")
    names = tuple(str(group) for group in groups) if isinstance(groups, list) else ()
    return User(text(asked, "spec.user"), names, text(asked, "spec.uid"))


def _wanted(asked: Data) -> Attributes:
    resource = mapping(asked, "spec.resourceAttributes")
    if not resource:
        attributes = mapping(asked, "spec.nonResourceAttributes")
        return Attributes(text(attributes, "verb"), path=text(attributes, "path"))
    plural, part = text(resource, "resource"), text(resource, "subresource")
    return Attributes(
        verb=text(resource, "verb"),
        group=text(resource, "group"),
        resource=f"{plural}/{part}" if part else plural,
        namespace=text(resource, "namespace"),
        name=text(resource, "name"),
    )


def _decision(authorizer: Authorizer, user: User, wanted: Attributes) -> Data:
    try:
        authorizer.check(user, wanted)
    except ClusterError as refused:
        if refused.status != 403:
            raise
        return {"allowed": False}
    return {"allowed": True}
