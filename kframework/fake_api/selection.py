"""Which objects a list or a watch is about: a namespace, labels, fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kframework.client import api_errors
from kframework.fake_api.field_selectors import field_selector
from kframework.fake_api.served import Resource, as_is
from kframework.fake_api.wire.documents import Document
from kframework.objects.field_selectors import parse_field_selector
from kframework.objects.label_selectors import SelectorError, parse_label_selector


class Selection:
    """The objects of a namespace (empty: of all) that `labelSelector` and `fieldSelector` of a query select.

    Raises ClusterError 400 for selectors that make no sense.
    """

    def __init__(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> None:
        self.namespace = namespace
        #: The one name that the fields select; empty if they leave it open.
        self.name: str = ""
        self._labels: Callable[[Mapping[str, str]], bool] | None = None
        self._fields: Callable[[Document], bool] | None = None
        if labels := query.get("labelSelector"):
            self._labels = _label_selector(labels)
        if fields := query.get("fieldSelector"):
            matches, requirements = field_selector(fields, resource.kind), parse_field_selector(fields).requirements
            parts = {each.key.partition(".")[0] for each in requirements}
            if resource.shown is as_is and parts <= {"metadata", "spec", "status"}:
                self._fields = lambda document: matches(document.parts(parts))
            else:
                self._fields = lambda document: matches(resource.data(document))
            names = (each.values[0] for each in requirements if each.key == "metadata.name" and each.operator == "=")
            self.name = next(names, "")

    @property
    def selects_all(self) -> bool:
        """Whether all objects of the namespace are meant."""
        return self._labels is None and self._fields is None

    def selects(self, document: Document | None) -> bool:
        """Return whether the object is meant; None, where there is no object, never is."""
        if document is None:
            return False
        metadata = document.subject.metadata
        return (
            (not self.namespace or metadata.namespace == self.namespace)
            and (self._labels is None or self._labels(metadata.labels))
            and (self._fields is None or self._fields(document))
        )


def _label_selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    try:
        return parse_label_selector(text).matches
    except SelectorError as error:
        raise api_errors.bad_request(f"unable to parse requirement: {error}") from error
