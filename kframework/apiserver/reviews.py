"""Reviews: objects that are only questions, who somebody is and what he may do; they are answered and not kept."""

from __future__ import annotations

import msgspec

from kframework.apiserver.access import Authorizer
from kframework.apiserver.authorization import Rule
from kframework.apiserver.calls import object_in
from kframework.apiserver.statuses import answered
from kframework.apiserver.wire.documents import Data
from kframework.apiserver.wire.plain_data import mapping, text, value
from kframework.cluster.request_attributes import Attributes, Path
from kframework.cluster.transport import Request, Response
from kframework.cluster.users import ADMIN, User
from kframework.errors import ClusterError

_ACCESS = ("localsubjectaccessreviews", "selfsubjectaccessreviews", "subjectaccessreviews")


def review(request: Request, authorizer: Authorizer) -> Response | None:
    """Answer a review; None if the request is none, ClusterError 400 if its body cannot be read."""
    path = Path.read(request.path)
    if path is None or request.method != "POST" or path.name:
        return None
    asks = request.user or ADMIN  # a program of this process may do anything
    match path.api_version, path.plural:
        case "authentication.k8s.io/v1", "selfsubjectreviews":
            return _reviewed(object_in(request), {"userInfo": _user_info(asks)})
        case "authorization.k8s.io/v1", "selfsubjectrulesreviews":
            asked = object_in(request)
            return _reviewed(asked, _listed(authorizer.rules(asks, text(asked, "spec.namespace"))))
        case "authorization.k8s.io/v1", plural if plural in _ACCESS:
            asked = object_in(request)
            user = asks if plural.startswith("self") else _subject(asked)
            return _reviewed(asked, _decision(authorizer, user, _wanted(asked)))
    return None


def _reviewed(asked: Data, status: Data) -> Response:
    return answered(asked | {"metadata": mapping(asked, "metadata"), "status": status}, 201)


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
