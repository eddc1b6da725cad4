"""Reading objects as plain data of which nothing is certain: what is absent or of another type counts as empty."""

from __future__ import annotations


def value(document: object, path: str) -> object:
    """Find what stands at a path such as `spec.nodeName`; None if nothing does."""
    if "." not in path:
        return document.get(path) if isinstance(document, dict) else None
    for field in path.split("."):
        document = document.get(field) if isinstance(document, dict) else None
    return document


def text(document: object, path: str, default: str = "") -> str:
    """Find a string that is not empty."""
    found = value(document, path)
    return found if isinstance(found, str) and found else default


def number(document: object, path: str) -> int:
    """Find a whole number."""
    found = value(document, path)
    return found if isinstance(found, int) else 0


def flag(document: object, path: str) -> bool:
    """Return whether true stands there."""
    return value(document, path) is True


def mapping(document: object, path: str) -> dict[str, object]:
    """Find a mapping."""
    found = value(document, path)
    return found if isinstance(found, dict) else {}


def entries(document: object, path: str) -> list[dict[str, object]]:
    """Find a list of mappings."""
    found = value(document, path)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def name(document: object) -> str:
    """Name an object."""
    return text(document, "metadata.name")
