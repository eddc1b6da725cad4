"""On which line of a YAML or JSON text something stands, found without reading further than there."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from kframework.objects.problem import FieldPath

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def line_of(text: str, document: int, path: FieldPath) -> int | None:
    """Find the line, from 1, of a path in a document of a text, as far down as the text goes.

    None for JSON that is no YAML, such as one that is indented by tabs.
    """
    events = yaml.parse(text, Loader=_Loader)
    try:
        for _ in range(document + 1):
            while not isinstance(next(events), yaml.DocumentStartEvent):
                pass
        event = next(events)
        line = _line(event)
        for step in path:
            entry = _entry(events, event, step)
            if entry is None:
                break
            line, event = entry
    except yaml.YAMLError:
        return None
    return line


def _entry(events: Iterator[yaml.Event], event: yaml.Event, step: str | int) -> tuple[int, yaml.Event] | None:
    """Go on to an entry of the node that has just begun; return the line where it begins, and its first event."""
    if isinstance(event, yaml.MappingStartEvent) and isinstance(step, str):
        key = next(events)
        while not isinstance(key, yaml.MappingEndEvent):
            value = _skip(events, key)
            if isinstance(key, yaml.ScalarEvent) and key.value == step:
                return _line(key), value
            key = _skip(events, value)
    elif isinstance(event, yaml.SequenceStartEvent) and isinstance(step, int):
        item = next(events)
        while step and not isinstance(item, yaml.SequenceEndEvent):
            item, step = _skip(events, item), step - 1
        return None if isinstance(item, yaml.SequenceEndEvent) else (_line(item), item)
    return None


def _skip(events: Iterator[yaml.Event], event: yaml.Event) -> yaml.Event:
    """Pass over the node that has just begun; return the event after it."""
    depth = int(isinstance(event, yaml.CollectionStartEvent))
    while depth:
        event = next(events)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
    return next(events)


def _line(event: yaml.Event) -> int:
    assert event.start_mark is not None
    return int(event.start_mark.line) + 1
