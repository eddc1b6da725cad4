"""How an API server words that an apply would change what belongs to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kframework.errors import ClusterError
from kframework.fake_api.apply.field_paths import Path, in_words
from kframework.fake_api.apply.managed_fields import Owner


def conflict(fields: Mapping[Owner, Sequence[Path]]) -> ClusterError:
    """Say which fields of whom it would change."""
    causes = tuple(
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": in_words(path)}
        for owner, paths in fields.items()
        for path in paths
    )
    return ClusterError(_message(fields), status=409, reason="Conflict", causes=causes)


def _message(fields: Mapping[Owner, Sequence[Path]]) -> str:
    found = {owner: [in_words(path) for path in paths] for owner, paths in fields.items() if paths}
    count = sum(map(len, found.values()))
    if count == 1:
        ((owner, (path,)),) = found.items()
        return f"Apply failed with 1 conflict: conflict with {owner}: {path}"
    lines: list[str] = []
    for owner, paths in found.items():
        lines += [f"conflicts with {owner}:", *(f"- {path}" for path in paths)]
    return f"Apply failed with {count} conflicts: " + "\n".join(lines)
