// How full the nodes are: in all and as a distribution per resource, and node by node as a picture. A few nodes are
// rows with a bar for each resource, many are cells of a map, coloured by the resource that is chosen.

const FEW = 40;
const BINS = 20;

let nodes = null;
let resource = "cpu";

async function refreshNodes() {
  nodes = await source.ask("nodes", {});
  if (!nodes.utilisation.some((fill) => fill.resource === resource)) resource = nodes.utilisation[0]?.resource ?? "";
  showNodes();
}

function showNodes() {
  if (nodes === null) return;
  keyed(byId("resources"), nodes.utilisation, (fill) => fill.resource, resourceChoice, fillResourceChoice);
  if (nodes.names.length > FEW) showMap(byId("picture"));
  else showBars(byId("picture"));
}

// -- totals -----------------------------------------------------------------------------------------------------------

function resourceChoice({ resource: name }) {
  const choose = () => {
    resource = name;
    showNodes();
  };
  return h(
    "label",
    { class: "resource" },
    h("input", { type: "radio", name: "resource", value: name, onchange: choose }),
    h("span", { class: "name" }, name),
    h("span", { class: "number" }),
    s("svg", { class: "histogram", viewBox: `0 0 ${BINS} 10`, preserveAspectRatio: "none", role: "img" }),
    h("span", { class: "quiet" }),
  );
}

function fillResourceChoice(label, fill) {
  const [input, , share, picture, text] = label.children;
  input.checked = fill.resource === resource;
  const sum = (column) => column.reduce((all, value) => all + value, 0);
  const requested = sum(fill.requested);
  const offered = sum(fill.allocatable);
  write(share, percent(requested, offered));
  write(text, `${amount(fill.resource, requested)} of ${amount(fill.resource, offered)}`);
  const bins = distribution(fill);
  const most = Math.max(1, ...bins);
  picture.replaceChildren(
    ...bins.map((count, bin) => {
      const height = count ? Math.max((10 * count) / most, 0.6) : 0;
      return s("rect", { class: `f${Math.min(Math.floor(bin / 2), 10)}`, x: bin + 0.08, width: 0.84, y: 10 - height, height });
    }),
  );
  const full = bins[BINS - 1];
  set(picture, "aria-label", `${full} of ${nodesWith(fill)} nodes are at least 95 % full`);
}

function distribution(fill) {
  const bins = new Array(BINS).fill(0);
  fill.allocatable.forEach((offered, position) => {
    if (offered > 0) bins[Math.min(Math.floor((BINS * fill.requested[position]) / offered), BINS - 1)] += 1;
  });
  return bins;
}

function nodesWith(fill) {
  return fill.allocatable.filter((offered) => offered > 0).length;
}

// The step of the scale: 0 to 9 in tenths, 10 for full; "none" where the node has nothing of it, "over" for too much.
function step(offered, requested) {
  if (offered <= 0) return requested > 0 ? "over" : "none";
  if (requested > offered) return "over";
  return requested === offered ? "10" : String(Math.floor((10 * requested) / offered));
}

// -- few nodes --------------------------------------------------------------------------------------------------------

function showBars(picture) {
  if (picture.firstChild?.className !== "bars") {
    picture.replaceChildren(h("table", { class: "bars" }, h("thead"), h("tbody")));
  }
  const [head, body] = picture.firstChild.children;
  const titles = nodes.utilisation.map((fill) => h("th", { scope: "col", "data-chosen": fill.resource === resource }, fill.resource));
  head.replaceChildren(h("tr", {}, h("th", { scope: "col" }, "Node"), titles));
  const positions = nodesByZone().map(({ position }) => position);
  keyed(body, positions, (position) => nodes.names[position], barsRow, fillBarsRow);
}

function barsRow(position) {
  return h("tr", {}, h("th", { scope: "row" }, nodeLink(nodes.names[position]), h("span", { class: "marks" })));
}

function fillBarsRow(row, position) {
  write(row.firstChild.lastChild, marks(position).join(" · "));
  while (row.children.length > nodes.utilisation.length + 1) row.lastChild.remove();
  while (row.children.length <= nodes.utilisation.length) row.append(h("td", {}, bar(0, 0), h("span", { class: "quiet" })));
  nodes.utilisation.forEach((fill, index) => {
    const cell = row.children[index + 1];
    const [offered, requested] = [fill.allocatable[position], fill.requested[position]];
    const [fullness, text] = cell.children;
    fillBar(fullness, offered, requested);
    set(cell, "data-chosen", fill.resource === resource);
    write(text, offered || requested ? `${amount(fill.resource, requested)} / ${amount(fill.resource, offered)}` : "–");
  });
}

function bar(offered, requested) {
  const svg = s("svg", { class: "bar", viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { height: 1 }));
  fillBar(svg, offered, requested);
  return svg;
}

function fillBar(svg, offered, requested) {
  set(svg, "data-over", requested > offered);
  set(svg.firstChild, "width", offered > 0 ? Math.min((100 * requested) / offered, 100) : requested ? 100 : 0);
}

function marks(position) {
  const zone = nodes.zones[nodes.zone[position]];
  return [
    ...(zone ? [zone] : []),
    ...(nodes.cordoned.includes(position) ? ["cordoned"] : []),
    ...(nodes.tainted.includes(position) ? ["tainted"] : []),
  ];
}

// -- many nodes -------------------------------------------------------------------------------------------------------

const GAP = 1;
const LABEL = 18;
const HEIGHT = 340;
const MAX_ZONES = 12;
const collator = new Intl.Collator("en", { numeric: true });

let ordered = { names: null, list: [] };

// The positions of the nodes by zone, then by name; cached until the nodes change.
function nodesByZone() {
  const names = nodes.names.join("\n") + nodes.zone.join();
  if (ordered.names !== names) {
    const list = nodes.names.map((name, position) => ({ name, position, zone: nodes.zones[nodes.zone[position]] }));
    list.sort((a, b) => collator.compare(a.zone, b.zone) || collator.compare(a.name, b.name));
    ordered = { names, list };
  }
  return ordered.list;
}

function showMap(picture) {
  if (picture.firstChild?.className !== "map") picture.replaceChildren(mapFrame());
  const frame = picture.firstChild;
  const [map, readout] = frame.children;
  const layout = mapLayout(nodesByZone(), frame.clientWidth || 600);
  const drawn = `${ordered.names}${layout.size}${layout.columns}`;
  if (map.drawn !== drawn) drawMap(map, layout);
  map.drawn = drawn;
  const fill = nodes.utilisation.find((each) => each.resource === resource);
  const cordoned = new Set(nodes.cordoned);
  map.cells.forEach((cell, index) => {
    const { position } = ordered.list[index];
    const colour = `f${step(fill.allocatable[position], fill.requested[position])}`;
    set(cell, "class", cordoned.has(position) ? `${colour} cordoned` : colour);
  });
  set(map, "aria-label", `${plural(nodes.names.length, "node")} by ${resource}`);
  point(map, readout, Number(map.getAttribute("aria-valuenow")));
}

function mapFrame() {
  const map = s("svg", { class: "cells", role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-valuenow": 0 });
  const readout = h("p", { class: "readout" });
  const at = (event) => map.cells.indexOf(event.target);
  const pointAt = (index) => index >= 0 && point(map, readout, index);
  map.cells = [];
  map.addEventListener("pointermove", (event) => pointAt(at(event)));
  map.addEventListener("click", (event) => {
    pointAt(at(event));
    if (at(event) >= 0) location.hash = nodeHash(ordered.list[at(event)].name);
  });
  map.addEventListener("keydown", (event) => {
    const index = Number(map.getAttribute("aria-valuenow"));
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -map.columns, ArrowDown: map.columns };
    const ends = { Home: 0, End: map.cells.length - 1 };
    if (event.key in steps) pointAt(Math.min(Math.max(index + steps[event.key], 0), map.cells.length - 1));
    else if (event.key in ends) pointAt(ends[event.key]);
    else if (event.key === "Enter") location.hash = nodeHash(ordered.list[index].name);
    else return;
    event.preventDefault();
  });
  return h("div", { class: "map" }, map, readout, scale());
}

function scale() {
  const steps = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];
  const cells = steps.map((name, index) => s("rect", { class: `f${name}`, x: index * 14, width: 13, height: 10 }));
  return h(
    "p",
    { class: "scale", "aria-hidden": "true" },
    "empty",
    s("svg", { width: 154, height: 10 }, cells),
    "full",
    s("svg", { width: 14, height: 10 }, s("rect", { class: "fover", width: 13, height: 10 })),
    "over",
    s("svg", { width: 14, height: 10 }, s("rect", { class: "fnone", width: 13, height: 10 })),
    "none",
    s("svg", { width: 14, height: 10 }, s("rect", { class: "f9 cordoned", width: 13, height: 10 })),
    "cordoned",
  );
}

// Find the largest cells with which all zones fit into the height, and the position of each cell.
function mapLayout(list, width) {
  const grouped = nodes.zones.length > 1 && nodes.zones.length <= MAX_ZONES;
  const groups = grouped ? [...Map.groupBy(list, ({ zone }) => zone)] : [["", list]];
  const rows = (columns) => groups.reduce((sum, [, members]) => sum + Math.ceil(members.length / columns), 0);
  const labels = grouped ? groups.length * LABEL : 0;
  let size = 26;
  while (size > 7 && rows(Math.floor(width / size)) * size + labels > HEIGHT) size -= 1;
  return { groups, grouped, size, width, columns: Math.floor(width / size) };
}

function drawMap(map, { groups, grouped, size, width, columns }) {
  const labels = [];
  map.cells = [];
  let top = 0;
  for (const [zone, members] of groups) {
    if (grouped) labels.push(s("text", { x: 0, y: top + LABEL - 6 }, `${zone || "no zone"} · ${number(members.length)}`));
    if (grouped) top += LABEL;
    members.forEach((_, index) => {
      const x = (index % columns) * size;
      const y = top + Math.floor(index / columns) * size;
      map.cells.push(s("rect", { x, y, width: size - GAP, height: size - GAP }));
    });
    top += Math.ceil(members.length / columns) * size;
  }
  map.columns = columns;
  map.cursor = s("rect", { class: "cursor", width: size + 1, height: size + 1 });
  set(map, "viewBox", `0 0 ${width} ${top}`);
  set(map, "height", top);
  set(map, "aria-valuemax", map.cells.length - 1);
  map.replaceChildren(...labels, ...map.cells, map.cursor);
}

// Put the cursor on a cell and describe its node.
function point(map, readout, index) {
  const cell = map.cells[Math.min(index, map.cells.length - 1)];
  const { name, position } = ordered.list[map.cells.indexOf(cell)];
  set(map.cursor, "x", Number(cell.getAttribute("x")) - 1);
  set(map.cursor, "y", Number(cell.getAttribute("y")) - 1);
  const utilisation = nodes.utilisation.map(({ resource: what, allocatable, requested }) => {
    const [has, takes] = [allocatable[position], requested[position]];
    return has || takes ? `${what} ${amount(what, takes)}/${amount(what, has)} (${percent(takes, has)})` : null;
  });
  const text = [...marks(position), ...utilisation.filter((fill) => fill !== null)].join(" · ");
  readout.replaceChildren(nodeLink(name), visible(` ${text}`));
  set(map, "aria-valuenow", map.cells.indexOf(cell));
  set(map, "aria-valuetext", `${name}: ${text}`);
}
