"""Patches: changes to an object as clients send them, in any of the three forms that Kubernetes knows.

All of it is plain data; neither the object nor the patch is changed, and the result may share parts with both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from kframework.client import api_errors
from kframework.errors import ClusterError
from kframework.fake_api.patch.json_patch import json_patch
from kframework.fake_api.patch.strategic_merge import strategic_merge
from kframework.in_memory.admission import merge_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
#: This one merges what its sender wants, with who owns what in mind: see `kframework.fake_api.apply`.
APPLY_PATCH = "application/apply-patch+yaml"

#: Groups of Kubernetes itself. Their types say how lists merge; those of custom resources do not.
_BUILT_IN_GROUPS = re.compile(
    "|apps|autoscaling|batch|policy|(admissionregistration|apiextensions|apiregistration|certificates|coordination"
    "|discovery|events|flowcontrol[.]apiserver|networking|node|rbac[.]authorization|resource|scheduling|storage)[.]k8s[.]io"
)


def apply_patch(document: dict[str, object], patch: bytes, content_type: str) -> dict[str, object]:
    """Return the object with the patch applied; `content_type` says which form it has.

    ClusterError 400 for a patch that cannot be read, 413 for one that does too much, 415 for a form that the object's
    kind does not take, 422 for one that does not fit the object.
    """
    form = content_type.partition(";")[0].strip().lower()
    if form not in _forms(document):
        accepted = ", ".join([*_forms(document), APPLY_PATCH])
        message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        raise ClusterError(message, status=415, reason="UnsupportedMediaType")
    try:
        return _applied(document, msgspec.json.decode(patch), form)
    except ValueError as error:
        raise api_errors.bad_request(f"error decoding patch: {error}") from error
    except RecursionError as error:
        raise api_errors.bad_request("error decoding patch: it is nested too deeply") from error


def _forms(document: Mapping[str, object]) -> list[str]:
    group, slash, _ = str(document.get("apiVersion", "")).partition("/")
    is_built_in = not slash or _BUILT_IN_GROUPS.fullmatch(group) is not None
    return [JSON_PATCH, MERGE_PATCH, *([STRATEGIC_MERGE_PATCH] if is_built_in else [])]


def _applied(document: dict[str, object], patch: object, form: str) -> dict[str, object]:
    if form == JSON_PATCH:
        patched = json_patch(document, patch)
    elif not isinstance(patch, dict):
        raise api_errors.bad_request("error decoding patch: it must be an object")
    elif form == MERGE_PATCH:
        patched = merge_patch(document, patch)
    else:
        patched = strategic_merge(document, patch)
    if not isinstance(patched, dict):
        raise ClusterError("the patch leaves no object", status=422, reason="Invalid")
    return patched
