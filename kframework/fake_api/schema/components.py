"""The schemas of Kubernetes' own types, made from the client's models, as OpenAPI documents hold them."""

from __future__ import annotations

from collections.abc import Iterable

from kframework.client.models import Type, descriptions, fields, reached, required
from kframework.fake_api.schema.formats import INT_OR_STRING, bits, is_bytes, is_quantity
from kframework.fake_api.schema.names import component
from kframework.fake_api.wire.documents import Data

_SIMPLE: dict[str, Data] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "float": {"type": "number", "format": "double"},
    "datetime": {"type": "string", "format": "date-time"},
}
_QUANTITY: Data = {"oneOf": [{"type": "string"}, {"type": "number"}]}
_INT_OR_STRING: Data = {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}


class Components:
    """Makes the schemas for a document of one group; `place` is where in it they stand."""

    def __init__(self, group: str, place: str = "#/components/schemas/") -> None:
        self._group = group
        self._place = place

    def of(self, models: Iterable[str]) -> dict[str, Data]:
        """Return the schemas of models and of all that they hold, by name."""
        found = {component(model, self._group): self._schema(model) for model in reached(models)}
        return dict(sorted(found.items()))

    def reference(self, model: str) -> Data:
        """Refer to the schema of a model."""
        return {"$ref": f"{self._place}{component(model, self._group)}"}

    def _schema(self, model: str) -> Data:
        said, needed = descriptions(model), required(model)
        properties = {
            field: self._property(model, field, type) | ({"description": said[field]} if said.get(field) else {})
            for field, type in fields(model).items()
        }
        schema: Data = {"type": "object"}
        if properties:
            schema["properties"] = properties
        if needed:
            schema["required"] = sorted(needed)
        return schema

    def _property(self, model: str, field: str, type: Type) -> Data:
        match type.within:
            case ("list", *_):
                return {"type": "array", "items": self._property(model, field, type.inner)}
            case ("map", *_):
                return {"type": "object", "additionalProperties": self._property(model, field, type.inner)}
        if type.is_model:  # beside a reference nothing else counts
            return {"allOf": [self.reference(type.name)]} if fields(type.name) else {"type": "object"}
        if is_quantity(model, field, type):
            return _QUANTITY
        if type.name == "str" and is_bytes(model, field):
            return {"type": "string", "format": "byte"}
        if type.name == "int":
            return {"type": "integer", "format": f"int{bits(model, field)}"}
        if type.name == "object":
            return _INT_OR_STRING if field in INT_OR_STRING else {"x-kubernetes-preserve-unknown-fields": True}
        return _SIMPLE[type.name]
