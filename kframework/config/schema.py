"""The JSON Schema of a configuration file, for editors: both documents, with the args of every plugin.

It covers rules about single values. Rules between values, such as unique names, are checked at loading.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping
from itertools import pairwise
from textwrap import dedent

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from kframework.config.configuration import OPTIONS_KIND, Options
from kframework.config.decode import ApiModel, field_names
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.config.load import KINDS
from kframework.config.models import API_VERSION, KIND, KubeSchedulerConfiguration, PluginConfigEntry
from kframework.framework.plugin import Plugin

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/{model}"

_DOCUMENTS: Mapping[str, type[BaseModel]] = {KIND: KubeSchedulerConfiguration, OPTIONS_KIND: Options}


def configuration_schema(plugins: Mapping[str, type[Plugin]]) -> JsonSchemaValue:
    """Return the JSON Schema (draft 2020-12) of each document of a configuration file, with these plugins' args.

    Args of other plugins may be anything.
    """
    args = {name: plugin.Args for name, plugin in plugins.items()}
    models = dict.fromkeys([*_DOCUMENTS.values(), *args.values()])
    modes: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "validation") for model in models]
    references, generated = models_json_schema(modes, ref_template=_REF, schema_generator=_Generator)
    found = generated["$defs"]
    name_of = {model: references[model, "validation"]["$ref"].removeprefix(_REF.format(model="")) for model in models}

    documents = {kind: name_of[model] for kind, model in _DOCUMENTS.items()}
    definitions = {name: schema for name, schema in found.items() if name not in name_of.values()}
    definitions |= {name: _document(found[name], kind) for kind, name in documents.items()}
    definitions[PluginConfigEntry.__name__] = _by_plugin(
        found[PluginConfigEntry.__name__],
        {name: _with_kind(found[name_of[args[name]]], name) for name in sorted(args)},
        {name: (plugin.__doc__ or "").strip() for name, plugin in plugins.items()},
    )
    used = json.dumps(definitions)
    models_of_args = [name for name in name_of.values() if name not in definitions]
    # A model of args may be recursive, or part of another one.
    definitions |= {name: found[name] for name in models_of_args if json.dumps(_REF.format(model=name)) in used}
    return {
        "$schema": _DIALECT,
        "title": "A configuration of kframework",
        "description": f"A {KIND} as in kube-scheduler, or a {OPTIONS_KIND}.",
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {"apiVersion": {"type": "string"}, "kind": {"enum": list(_DOCUMENTS)}},
        "allOf": [_if({"kind": {"const": kind}}, {"$ref": _REF.format(model=documents[kind])}) for kind in documents],
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _document(model: JsonSchemaValue, kind: str) -> JsonSchemaValue:
    header: JsonSchemaValue = {
        "apiVersion": {"description": "The API version of this document.", "const": KINDS[kind]},
        "kind": {"description": "The kind of this document.", "const": kind},
    }
    return {**model, "required": ["apiVersion", "kind"], "properties": {**header, **model["properties"]}}


def _by_plugin(
    entry: JsonSchemaValue, args: Mapping[str, JsonSchemaValue], descriptions: Mapping[str, str]
) -> JsonSchemaValue:
    cases = []
    for name, schema in args.items():
        given: JsonSchemaValue = {"description": descriptions.get(name, ""), **schema}
        must = {"required": ["args"]} if schema.get("required") else {}
        cases.append(_if({"name": {"const": name}}, {"properties": {"args": given}, **must}))
    properties = {**entry["properties"], "name": {**entry["properties"]["name"], "examples": list(args)}}
    return {**entry, "properties": properties, "allOf": cases}


def _with_kind(args: JsonSchemaValue, plugin: str) -> JsonSchemaValue:
    """Return the schema of a plugin's args with the header that they may have; nothing at all means the defaults."""
    version: JsonSchemaValue = {"const": API_VERSION} if plugin in IN_TREE_PLUGINS else {}
    header = {
        "apiVersion": {"description": f"Optional, as in kube-scheduler: {API_VERSION}.", **version},
        "kind": {"description": "Optional, as in kube-scheduler.", "const": f"{plugin}Args"},
    }
    schema = {**args, "properties": {**args.get("properties", {}), **header}}
    return schema if args.get("required") else _or_null(schema)


def _if(properties: JsonSchemaValue, then: JsonSchemaValue) -> JsonSchemaValue:
    return {"if": {"properties": properties, "required": list(properties)}, "then": then}


class _Generator(GenerateJsonSchema):
    ignored_warning_kinds = frozenset({"skipped-choice", "non-serializable-default"})  # type: ignore[assignment]

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def handle_invalid_for_json_schema(self, schema: object, error_info: str) -> JsonSchemaValue:
        """Allow anything for types that only Python can check."""
        return {}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Allow null for an absent field, if the model does."""
        described = super().model_schema(schema)
        model, properties = schema["cls"], described.get("properties", {})
        texts = _docstrings(model)
        for name, field in model.model_fields.items():
            property = properties.get(field.serialization_alias or field.alias or name)
            if name in texts and property is not None:
                property.setdefault("description", texts[name])
        if issubclass(model, ApiModel) and "properties" in described:
            fields = described["properties"]
            described["properties"] = {name: _or_null(fields[name]) for name in field_names(model)}
        return described

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> JsonSchemaValue:
        struct = schema["cls"]
        if not (isinstance(struct, type) and issubclass(struct, msgspec.Struct)):
            return super().is_instance_schema(schema)
        (described,), parts = msgspec.json.schema_components([struct], ref_template=_REF.format(model="{name}"))
        return _object(described, parts)


def _docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Read the docstrings below the fields of a model in its source, by field.

    pydantic could do so whenever a model is defined, which takes every command a quarter of its start.
    """
    texts: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if not issubclass(each, BaseModel) or each is BaseModel:
            continue
        try:
            (definition,) = ast.parse(dedent(inspect.getsource(each))).body
        except (OSError, TypeError):  # no source, e.g. a class created at run time
            continue
        assert isinstance(definition, ast.ClassDef)
        for field, below in pairwise(definition.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts


def _object(described: JsonSchemaValue, parts: Mapping[str, JsonSchemaValue]) -> JsonSchemaValue:
    """Write out msgspec's schema of an object, as strict and as lenient with null as the decoder is."""
    if "$ref" in described:
        part = parts[described["$ref"].removeprefix(_REF.format(model=""))]
        return _object({**part, **{key: value for key, value in described.items() if key != "$ref"}}, parts)
    schema = {key: value for key, value in described.items() if key not in ("title", "required")}
    if "properties" in schema:
        schema["properties"] = {name: _or_null(_object(each, parts)) for name, each in schema["properties"].items()}
        schema["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        schema["additionalProperties"] = _or_null(_object(schema["additionalProperties"], parts))
    if "items" in schema:
        schema["items"] = _object(schema["items"], parts)
    if "anyOf" in schema:
        schema["anyOf"] = [_object(each, parts) for each in schema["anyOf"]]
    return schema


def _or_null(schema: JsonSchemaValue) -> JsonSchemaValue:
    if isinstance(schema.get("type"), str):
        enum = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        return {**schema, "type": list(dict.fromkeys([schema["type"], "null"])), **enum}
    kept = {key: value for key, value in schema.items() if key in ("description", "default")}
    rest = {key: value for key, value in schema.items() if key not in kept}
    if {"type": "null"} in rest.get("anyOf", ()) or not rest:
        return schema
    return {**kept, "anyOf": [rest, {"type": "null"}]}
