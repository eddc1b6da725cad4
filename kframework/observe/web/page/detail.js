// The detail panel: a node with its pods, or a pod or another object of the engine with its tables and explanation.

function openDetail(kind, name) {
  const panel = byId("detail");
  fillDetail(name, h("p", { class: "note" }, "…"));
  if (!panel.open) panel.showModal();
  const shown = kind === "node" ? showNode(name) : showThing(kind, name);
  shown.catch((fault) => fillDetail(name, h("p", { class: "note" }, fault instanceof ViewError ? fault.message : "No answer.")));
}

function closeDetail() {
  byId("detail").close();
}

function fillDetail(name, ...content) {
  const close = h("button", { type: "button", class: "close", "aria-label": "Close", onclick: closeDetail }, "×");
  byId("detail").replaceChildren(h("header", {}, h("h2", { id: "detail-title" }, name), close), ...content.flat().filter(Boolean));
}

function setUpDetail() {
  const panel = byId("detail");
  panel.addEventListener("close", () => {
    if (location.hash.includes("/")) history.replaceState(null, "", location.pathname + location.search);
  });
  panel.addEventListener("click", (event) => {
    if (event.target === panel) closeDetail();
  });
}

// -- a pod, or another object of the engine ---------------------------------------------------------------------------

async function showThing(kind, name) {
  const { sections, hasExplanation: explained } = await source.ask("details", { kind, name });
  const attempts = kind === "pod" ? await source.ask("attempts", { pod: name }) : { decisions: [], bindings: [] };
  const tried = attempts.decisions.length ? [attemptsSection(attempts)] : [];
  const tables = [...sections, ...tried].map(tablePart);
  const text = explained ? await explanation(kind, name) : [];
  const nothing = explained || tables.length ? null : h("p", { class: "note" }, `No data about this ${kind}.`);
  fillDetail(title(kind, name), ...text, ...tables, nothing);
}

function tablePart(section) {
  const frame = { class: "scroll wide", role: "region", "aria-label": section.title, tabindex: "0" };
  return part(section.title, h("div", frame, sectionTable(section)));
}

function title(kind, name) {
  return kind === "pod" ? name : `${kind} ${name}`;
}

async function explanation(kind, name) {
  try {
    const explained = await source.ask("explain", { [kind]: name });
    return "assessment" in explained ? podExplained(explained) : explainedInLines(explained);
  } catch (fault) {
    if (!(fault instanceof ViewError)) throw fault;
    return [h("p", { class: "note" }, fault.message)];
  }
}

// Another engine's explanation: text of several lines.
function explainedInLines({ text }) {
  return [h("pre", { class: "explained" }, text.trimEnd().split("\n").map((line) => h("span", {}, line || " ")))];
}

function attemptsSection({ decisions, bindings }) {
  const ended = new Map(bindings.map((binding) => [binding.attempt, binding]));
  const columns = [
    ["At", "moment"],
    ["Result", "text"],
    ["Node", "text"],
    ["Feasible", "text"],
    ["Why", "sentence"],
  ].map(([name, kind]) => ({ title: name, kind }));
  const rows = decisions.map((decision) => {
    const { poppedAt, result, node, feasible, evaluated, message, attempt } = decision;
    const binding = ended.get(attempt);
    const failed = binding !== undefined && binding.code !== 0;
    const tone = result === "scheduled" && !failed ? "good" : result === "error" || failed ? "bad" : "waiting";
    const why = failed ? `Not bound: ${binding.message}` : node ? "" : message;
    const on = node ? { to: "node", name: node } : null;
    return { tone, cells: [poppedAt, RESULTS[result], on, `${number(feasible)}/${number(evaluated)}`, why] };
  });
  return { title: "Attempts", columns, rows, total: rows.length, note: "" };
}

// -- a node -----------------------------------------------------------------------------------------------------------

async function showNode(name) {
  const { labels, taints, total, pods, devices, devicesTotal } = await source.ask("node", { name });
  const position = nodes === null ? -1 : nodes.names.indexOf(name);
  const utilisation = position < 0 ? [] : nodes.utilisation.filter(({ allocatable, requested }) => allocatable[position] || requested[position]).map((fill) => utilisationOf(fill, position));
  const resources = [...new Set(pods.flatMap(({ requests }) => requests.map(([what]) => what)))];
  fillDetail(
    name,
    h("dl", { class: "utilisation" }, utilisation),
    taints.length ? [h("h3", {}, "Taints"), h("p", { class: "terms" }, taints.map((taint) => h("code", {}, taint)))] : null,
    h("h3", {}, `${plural(total, "pod")}`),
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Pod"), resources.map((what) => h("th", { scope: "col", class: "number" }, what)))),
      h("tbody", {}, pods.map((pod) => podOnNode(pod, resources))),
    ),
    total > pods.length ? h("p", { class: "note" }, `The largest ${number(pods.length)} of ${number(total)}.`) : null,
    devicesOnNode(devices, devicesTotal),
    h("h3", {}, "Labels"),
    h("p", { class: "terms" }, Object.entries(labels).map(([key, value]) => h("code", {}, `${key}=${value}`))),
  );
}

function utilisationOf({ resource: what, allocatable, requested }, position) {
  const [has, takes] = [allocatable[position], requested[position]];
  return h(
    "div",
    {},
    h("dt", {}, what),
    h("dd", {}, bar(has, takes), ` ${amount(what, takes)} of ${amount(what, has)}`),
  );
}

function devicesOnNode(devices, total) {
  if (!devices.length) return null;
  const held = devices.filter(({ heldBy }) => heldBy.length).length;
  const head = ["Device", "Pool", "Used by"].map((name) => h("th", { scope: "col" }, name));
  return [
    h("h3", {}, `${plural(total, "device")}, ${number(held)} in use`),
    h("table", { class: "devices" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, devices.map(deviceOnNode))),
    total > devices.length ? h("p", { class: "note" }, `The first ${number(devices.length)} of ${number(total)}.`) : null,
  ];
}

function deviceOnNode({ driver, pool, device, heldBy, taints, wrong }) {
  const marks = [...taints.map((taint) => `tainted ${taint}`), ...(wrong ? [wrong] : [])].join(", ");
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, device, marks ? h("span", { class: "quiet" }, ` ${marks}`) : null),
    h("td", {}, `${driver}/${pool}`),
    h("td", {}, heldBy.map(holder)),
  );
}

function holder({ claim, pods, groups }) {
  const users = [...pods.map(podLink), ...groups.map((group) => `PodGroup ${group}`)];
  const links = users.flatMap((user, index) => [index ? ", " : null, user]);
  return h("div", {}, links, h("span", { class: "quiet" }, ` claim ${claim}`));
}

function podOnNode({ pod, priority, terminating, requests }, resources) {
  const takes = new Map(requests);
  const marks = [priority ? `priority ${priority}` : "", terminating ? "terminating" : ""].filter(Boolean).join(", ");
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, podLink(pod), marks ? h("span", { class: "quiet" }, ` ${marks}`) : null),
    resources.map((what) => h("td", { class: "number" }, takes.has(what) ? amount(what, takes.get(what)) : "")),
  );
}
