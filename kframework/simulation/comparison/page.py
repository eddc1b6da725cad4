"""A comparison as a page: both pictures of the nodes side by side, the pods that move and why, and the measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from math import ceil
from operator import attrgetter

from kframework.errors import escape_text
from kframework.observe.text_table import format_count
from kframework.observe.web.view import static_page
from kframework.simulation.comparison.result import ConfigurationComparison, NodeUse
from kframework.simulation.comparison.text import (
    CAUSE_HEADERS,
    MEASURE_HEADERS,
    WIDE_POD_HEADERS,
    cause_rows,
    describe,
    headline,
    measure_rows,
    measures_note,
    wide_pod_rows,
)

#: More nodes than this are drawn as cells, not as rows with bars.
FEW_NODES = 40
#: The maximum number of pods and of cells, so that the page opens at once.
MAX_PODS, MAX_CELLS = 2_000, 10_000
#: The cells in a row, and the size of a cell.
_COLUMNS, _SIZE = 50, 12
_CELL = f' width="{_SIZE - 2}" height="{_SIZE - 2}"'
#: A node whose use differs by this share is marked.
_MARKED = 0.1

#: The use of a node under one of the configurations.
Side = Callable[[NodeUse], Mapping[str, float]]
#: The amount of a full bar by resource.
Scales = Mapping[str, float]

_TITLES = {"cpu": "CPU", "memory": "memory", "pods": "pods"}


def comparison_page(result: ConfigurationComparison) -> str:
    """Create the page of a comparison: one file with everything in it, without scripts."""
    return static_page(f"{result.new} and {result.baseline}", "\n".join(_sections(result)))


def _sections(result: ConfigurationComparison) -> Iterator[str]:
    yield f"<h1>{_text(headline(result))}</h1>"
    yield f"<p>{_text(describe(result))}</p>"
    if result.nodes:
        scales = _find_scales(result.nodes)
        yield _section("Nodes", _node_pictures(result, scales), _describe_nodes(result, scales))
    if result.causes or result.measures:
        yield f'<div class="pair">{"".join(_facts(result))}</div>'
    if result.differences:
        rest = len(result.differences) - MAX_PODS
        rows = [*wide_pod_rows(result)][:MAX_PODS]
        yield _section("Pods", _table(WIDE_POD_HEADERS, rows), f"… and {rest:,} more" if rest > 0 else "")


def _facts(result: ConfigurationComparison) -> Iterator[str]:
    if result.causes:
        note = "" if result.measures else measures_note(result)
        yield _section("Why", _table(CAUSE_HEADERS, [*cause_rows(result)]), note)
    if result.measures:
        yield _section("Measures", _table(MEASURE_HEADERS, [*measure_rows(result)]), measures_note(result))


def _section(title: str, content: str, note: str = "") -> str:
    footer = f'<p class="note">{_text(note)}</p>' if note else ""
    return f'<section><h2>{title}</h2><div class="frame">{content}</div>{footer}</section>'


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{header.capitalize()}</th>' for header in headers)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(text: str) -> str:
    return escape(escape_text(text))


# -- nodes -------------------------------------------------------------------------------------------------------------


def _describe_nodes(result: ConfigurationComparison, scales: Scales) -> str:
    marked = sum(_is_marked(node, scales) for node in result.nodes)
    what = "pods of the recording that each configuration sends to the node"
    if result.measures:
        what = "requested share of what the node offers, averaged over time"
    if len(result.nodes) > FEW_NODES:
        what += "; the darker, the more"
    return f"{what}; {format_count(marked, 'node')} marked: the use differs by a tenth or more"


def _find_scales(nodes: Sequence[NodeUse]) -> Scales:
    """Return the amount of a full bar of each resource: the whole node, or the largest number of pods."""
    uses = [use for node in nodes for use in (node.baseline, node.new)]
    return {
        name: max(use.get(name, 0.0) for use in uses) if name == "pods" else 1.0
        for name in _TITLES
        if any(name in use for use in uses)
    }


def _node_pictures(result: ConfigurationComparison, scales: Scales) -> str:
    sides: tuple[tuple[str, str, Side], ...] = (
        ("Baseline", result.baseline, attrgetter("baseline")),
        ("New", result.new, attrgetter("new")),
    )
    draw = _bars if len(result.nodes) <= FEW_NODES else _maps
    pictures = (
        f"<div><h3>{title}: {_text(name)}</h3>{draw(result.nodes, scales, side)}</div>" for title, name, side in sides
    )
    return f'<div class="pair">{"".join(pictures)}</div>'


def _bars(nodes: Sequence[NodeUse], scales: Scales, side: Side) -> str:
    """Draw a row for each node, with a bar for each resource."""
    head = "".join(f'<th scope="col">{_TITLES[name]}</th>' for name in scales)
    rows = "".join(_bars_row(node, scales, side) for node in nodes)
    return f'<table class="bars"><thead><tr><th scope="col">Node</th>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _bars_row(node: NodeUse, scales: Scales, side: Side) -> str:
    cells = "".join(_bar(side(node), name, scale) for name, scale in scales.items())
    marked = ' class="changed"' if _is_marked(node, scales) else ""
    return f'<tr{marked}><th scope="row">{_text(node.node)}</th>{cells}</tr>'


def _bar(use: Mapping[str, float], resource: str, scale: float) -> str:
    width = min(100 * use.get(resource, 0.0) / scale, 100)
    return (
        '<td><svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width:.1f}" height="1"/></svg><span class="quiet">{_format_use(use, resource)}</span></td>'
    )


def _maps(nodes: Sequence[NodeUse], scales: Scales, side: Side) -> str:
    """Draw a cell for each node, once for each resource."""
    shown = nodes[:MAX_CELLS]
    box = f'viewBox="0 0 {_COLUMNS * _SIZE} {ceil(len(shown) / _COLUMNS) * _SIZE}"'
    maps = ""
    for name, scale in scales.items():
        cells = "".join(_cell(node, index, name, scale, side) for index, node in enumerate(shown))
        maps += f'<h3>{_TITLES[name]}</h3><svg class="cells" role="img" aria-label="{name}" {box}>{cells}</svg>'
    rest = len(nodes) - len(shown)
    return maps + (f'<p class="note">… and {rest:,} more</p>' if rest else "")


def _cell(node: NodeUse, index: int, resource: str, scale: float, side: Side) -> str:
    row, column = divmod(index, _COLUMNS)
    use = side(node)
    shade = min(int(10 * use.get(resource, 0.0) / scale), 10)
    changed = " changed" if _is_marked(node, {resource: scale}) else ""
    return (
        f'<rect class="f{shade}{changed}" x="{column * _SIZE + 1}" y="{row * _SIZE + 1}"{_CELL}>'
        f"<title>{_text(f'{node.node}: {_format_use(use, resource)}')}</title></rect>"
    )


def _is_marked(node: NodeUse, scales: Scales) -> bool:
    return any(
        abs(node.new.get(name, 0.0) - node.baseline.get(name, 0.0)) >= _MARKED * scale for name, scale in scales.items()
    )


def _format_use(use: Mapping[str, float], resource: str) -> str:
    if resource not in use:
        return "–"
    return format_count(int(use[resource]), "pod") if resource == "pods" else f"{100 * use[resource]:.0f} %"
