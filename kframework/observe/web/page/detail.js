// One thing beside the rest: a node with its pods, or a pod or what else an engine has with what is known of it.

function openDetail(sort, name) {
  const panel = byId("detail");
  fillDetail(name, h("p", { class: "note" }, "…"));
  if (!panel.open) panel.showModal();
  const shown = sort === "node" ? showNode(name) : showThing(sort, name);
  shown.catch((fault) => fillDetail(name, h("p", { class: "note" }, fault instanceof Refusal ? fault.message : "No answer.")));
}

function closeDetail() {
  byId("detail").close();
}

function fillDetail(name, ...content) {
  const close = h("button", { type: "button", class: "close", "aria-label": "Close", onclick: closeDetail }, "×");
  byId("detail").replaceChildren(h("header", {}, h("h2", { id: "detail-title" }, name), close), ...content.flat().filter(Boolean));
}

function listenToDetail() {
  const panel = byId("detail");
  panel.addEventListener("close", () => {
    if (location.hash.includes("/")) history.replaceState(null, "", location.pathname + location.search);
  });
  panel.addEventListener("click", (event) => {
    if (event.target === panel) closeDetail();
  });
}

// -- a pod, or what else an engine has --------------------------------------------------------------------------------

async function showThing(sort, name) {
  const { sections, explained } = await source.ask("details", { sort, name });
  const attempts = sort === "pod" ? await source.ask("attempts", { pod: name }) : { decisions: [], bindings: [] };
  const tried = attempts.decisions.length ? [attemptsSection(attempts)] : [];
  const tables = [...sections, ...tried].map(tablePart);
  const said = explained ? await explanation(sort, name) : [];
  const nothing = explained || tables.length ? null : h("p", { class: "note" }, `Nothing is known of this ${sort}.`);
  fillDetail(title(sort, name), ...said, ...tables, nothing);
}

function tablePart(section) {
  const frame = { class: "scroll wide", role: "region", "aria-label": section.title, tabindex: "0" };
  return part(section.title, h("div", frame, sectionTable(section)));
}

function title(sort, name) {
  return sort === "pod" ? name : `${sort} ${name}`;
}

async function explanation(sort, name) {
  try {
    const explained = await source.ask("explain", { [sort]: name });
    return "assessment" in explained ? podExplained(explained) : explainedInLines(explained);
  } catch (fault) {
    if (!(fault instanceof Refusal)) throw fault;
    return [h("p", { class: "note" }, fault.message)];
  }
}

// What an engine says in words of its own: {text: "..."}, of several lines.
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
    ["Why", "said"],
  ].map(([name, kind]) => ({ title: name, kind }));
  const rows = decisions.map((decision) => {
    const { popped_at, result, node, feasible, evaluated, message, attempt } = decision;
    const binding = ended.get(attempt);
    const failed = binding !== undefined && binding.code !== 0;
    const tone = result === "scheduled" && !failed ? "good" : result === "error" || failed ? "bad" : "wait";
    const why = failed ? `Not bound: ${binding.message}` : node ? "" : message;
    const on = node ? { to: "node", name: node } : null;
    return { tone, cells: [popped_at, RESULTS[result], on, `${number(feasible)}/${number(evaluated)}`, why] };
  });
  return { title: "Attempts", columns, rows, total: rows.length, note: "" };
}

// -- a node -----------------------------------------------------------------------------------------------------------

async function showNode(name) {
  const { labels, taints, total, pods, devices, devices_total } = await source.ask("node", { name });
  const place = nodes === null ? -1 : nodes.names.indexOf(name);
  const fills = place < 0 ? [] : nodes.fills.filter(({ allocatable, requested }) => allocatable[place] || requested[place]).map((fill) => fillOf(fill, place));
  const resources = [...new Set(pods.flatMap(({ requests }) => requests.map(([what]) => what)))];
  fillDetail(
    name,
    h("dl", { class: "fills" }, fills),
    taints.length ? [h("h3", {}, "Taints"), h("p", { class: "terms" }, taints.map((taint) => h("code", {}, taint)))] : null,
    h("h3", {}, `${plural(total, "pod")}`),
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Pod"), resources.map((what) => h("th", { scope: "col", class: "number" }, what)))),
      h("tbody", {}, pods.map((pod) => podOnNode(pod, resources))),
    ),
    total > pods.length ? h("p", { class: "note" }, `The largest ${number(pods.length)} of ${number(total)}.`) : null,
    devicesOnNode(devices, devices_total),
    h("h3", {}, "Labels"),
    h("p", { class: "terms" }, Object.entries(labels).map(([key, value]) => h("code", {}, `${key}=${value}`))),
  );
}

function fillOf({ resource: what, allocatable, requested }, place) {
  const [has, takes] = [allocatable[place], requested[place]];
  return h(
    "div",
    {},
    h("dt", {}, what),
    h("dd", {}, bar(has, takes), ` ${amount(what, takes)} of ${amount(what, has)}`),
  );
}

function devicesOnNode(devices, total) {
  if (!devices.length) return null;
  const held = devices.filter(({ held_by }) => held_by.length).length;
  const head = ["Device", "Pool", "Held by"].map((name) => h("th", { scope: "col" }, name));
  return [
    h("h3", {}, `${plural(total, "device")}, ${number(held)} in use`),
    h("table", { class: "devices" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, devices.map(deviceOnNode))),
    total > devices.length ? h("p", { class: "note" }, `The first ${number(devices.length)} of ${number(total)}.`) : null,
  ];
}

function deviceOnNode({ driver, pool, device, held_by, taints, wrong }) {
  const marks = [...taints.map((taint) => `tainted ${taint}`), ...(wrong ? [wrong] : [])].join(", ");
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, device, marks ? h("span", { class: "quiet" }, ` ${marks}`) : null),
    h("td", {}, `${driver}/${pool}`),
    h("td", {}, held_by.map(holder)),
  );
}

function holder({ claim, pods }) {
  const links = pods.flatMap((pod, index) => [index ? ", " : null, podLink(pod)]);
  return h("div", {}, links, h("span", { class: "quiet" }, ` claim ${claim}`));
}

function podOnNode({ pod, priority, terminating, requests }, resources) {
  const takes = new Map(requests);
  const marks = [priority ? `priority ${priority}` : "", terminating ? "ending" : ""].filter(Boolean).join(", ");
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, podLink(pod), marks ? h("span", { class: "quiet" }, ` ${marks}`) : null),
    resources.map((what) => h("td", { class: "number" }, takes.has(what) ? amount(what, takes.get(what)) : "")),
  );
}
