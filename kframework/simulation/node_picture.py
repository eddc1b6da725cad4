"""How full the nodes are, as a picture: a square for each node, the darker the fuller."""

from __future__ import annotations

from html import escape

from kframework.errors import visible
from kframework.observe.web.nodes import Nodes

#: So many nodes are drawn, in rows of so many squares of so many pixels.
DRAWN, _A_ROW, _SIZE = 2_000, 50, 14


def node_picture(nodes: Nodes) -> str:
    """Draw the nodes in the order in which they are looked at; each says on a touch what it offers and what is used."""
    names = nodes.names[:DRAWN]
    squares = "".join(_square(nodes, place) for place in range(len(names)))
    height = -(-len(names) // _A_ROW) * _SIZE
    width = min(len(names), _A_ROW) * _SIZE
    more = len(nodes.names) - len(names)
    rest = f"<p>… and {more} more nodes</p>" if more else ""
    return f'<svg width="{width}" height="{height}" role="img" aria-label="nodes">{squares}</svg>{rest}'


def _square(nodes: Nodes, place: int) -> str:
    row, column = divmod(place, _A_ROW)
    used = [(each.resource, each.requested[place], each.allocatable[place]) for each in nodes.fills]
    full = max((requested / offered for _, requested, offered in used if offered), default=0.0)
    lines = [nodes.names[place], *(f"{name}: {requested} of {offered}" for name, requested, offered in used)]
    tip = escape(visible("; ".join(lines)))
    # From a light blue where nothing runs to a dark one where nothing more fits.
    lightness = round(92 - 60 * min(full, 1.0))
    return (
        f'<rect x="{column * _SIZE}" y="{row * _SIZE}" width="{_SIZE - 2}" height="{_SIZE - 2}"'
        f' fill="hsl(215 70% {lightness}%)"><title>{tip}</title></rect>'
    )
