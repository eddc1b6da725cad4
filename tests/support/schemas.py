"""The JSON Schema of configurations beside the loader: what the two say of the same document."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from kframework.config.args import decode_args
from kframework.config.configuration import Configuration
from kframework.config.document import Json
from kframework.config.load import load_configuration
from kframework.config.schema import configuration_schema
from kframework.core.runtime.registry import Registry
from kframework.errors import ConfigError

#: What the loader refuses and a schema lets pass: a part of the message, and why a schema cannot say it.
BEYOND_A_SCHEMA = {
    "is empty; want": "there is no document to look at",
    "duplicate KubeSch": "a schema sees one document at a time",
    "Duplicate value": "lists are compared by one field of their items, not by the whole",
    "duplicate extender managed resource name": "between several extenders",
    "only one extender can implement bind": "between several extenders",
    "only one queue sort plugin can be enabled": "names are compared with other profiles'",
    "must be the same for all profiles": "between profiles",
    "profiles[0].schedulerName: Unsupported value": "names of the other document",
    "profiles[0].shadow: ": "names of the other document",
    "schedulerName: Required value": "only where there are several profiles",
    "must be greater than or equal to PodInitialBackoffSeconds": "between two fields",
    "must be greater than `RenewDeadline`": "between two fields, which are texts",
    "must be greater than retryPeriod": "between two fields, which are texts",
    "must be greater than zero": "the size of a duration, which is a text",
    "must be zero or positive": "the size of a duration, which is a text",
    "must be at least 1 second": "the size of a duration, which is a text",
    "time: invalid duration": "the size of a duration, which is a text",
    "cannot be zero at the same time": "between two fields",
    "must have a positive weight applied to it": "only with a prioritizeVerb",
    "when .defaultConstraints are not empty": "between two fields",
    "must be specified when type is": "between two fields",
    "must be nil when type is not": "between two fields",
    "values must be sorted": "between the items of a list",
    "resource weight of": "a weight may be above 100 in other args",
    "must be 1": "a weight may be another one in other args",
    "is an invalid extended resource name": "the grammar of names",
    "must be [dns.prefix/]name": "the grammar of names",
    "resource group name can't contain": "the grammar of names",
    "addedAffinity": "the grammar of selectors",
    "uantity": "the grammar of quantities",
    "layerMemory": "the grammar of quantities",
    "couldn't build extenders": "between extenders and plugins",
    "was invalid in version": "a name that is no plugin's is a mistake only to the version",
}

#: What a schema refuses and the loader lets pass, by the path of the value.
STRICTER = {
    r"profiles/\d+/pluginConfig/\d+/args": "args of a plugin that is not enabled, which the loader warns of",
    r"leaderElection": "rules that hold only where a leader is elected",
}


@cache
def schema_of_all() -> dict[str, Any]:
    """Return the schema of configurations with every plugin of the repository."""
    registry = Registry.from_installed()
    return configuration_schema({name: registry.load(name) for name in registry})


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(schema_of_all())


def schema_errors(document: Json) -> list[str]:
    """Return what the schema says against a document."""
    return [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in validator().iter_errors(document)
    ]


def loader_errors(document: Mapping[str, object]) -> list[str]:
    """Return what the loader, and the plugins of their args, say against a document."""
    try:
        check_args(load_configuration(document))
    except ConfigError as error:
        return str(error).splitlines()
    return []


def check_args(configuration: Configuration) -> None:
    """Decode all args as a scheduler does when it compiles its profiles; ConfigError for what is wrong with them."""
    registry = Registry.from_installed()
    decode_args(configuration, {name: registry.load(name).Args for name in registry})


def disagreement(loader: Sequence[str], schema: Sequence[str]) -> str:
    """Return in which way what loader and schema say of a file differs; nothing where it may."""
    if loader and not schema and not all(any(each in line for each in BEYOND_A_SCHEMA) for line in loader):
        return f"only the loader refuses: {loader}"
    if schema and not loader and not all(any(re.match(each, line) for each in STRICTER) for line in schema):
        return f"only the schema refuses: {schema}"
    return ""
