"""Read plain data without a known structure: absent values, and values of the wrong type, count as empty."""

from __future__ import annotations


def value(document: object, path: str) -> object:
    """Return the value at a path such as `spec.nodeName`; None if it is absent."""
    if "." not in path:
        return document.get(path) if isinstance(document, dict) else None
    for field in path.split("."):
        document = document.get(field) if isinstance(document, dict) else None
    return document


def text(document: object, path: str, default: str = "") -> str:
    """Return the non-empty string at a path, or the default."""
    result = value(document, path)
    return result if isinstance(result, str) and result else default


def number(document: object, path: str) -> int:
    """Return the whole number at a path, or 0."""
    result = value(document, path)
    return result if isinstance(result, int) else 0


def flag(document: object, path: str) -> bool:
    return value(document, path) is True


def mapping(document: object, path: str) -> dict[str, object]:
    result = value(document, path)
    return result if isinstance(result, dict) else {}


def entries(document: object, path: str) -> list[dict[str, object]]:
    result = value(document, path)
    return [entry for entry in result if isinstance(entry, dict)] if isinstance(result, list) else []


def strings(document: object, path: str) -> list[str]:
    result = value(document, path)
    return [each for each in result if isinstance(each, str)] if isinstance(result, list) else []


def name(document: object) -> str:
    return text(document, "metadata.name")
