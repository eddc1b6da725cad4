// One pod's explanation: where it is, what would help, what stands against it, what decides between nodes.

function podExplained(explained) {
  const { now: assessment, then, help, notes, outside, preemption, waiting } = explained;
  return [
    standing(explained),
    notes.map((note) => h("p", { class: "note" }, note)),
    helpful(help),
    waiting && waitsFor(waiting, explained.at),
    best(assessment, explained.node),
    against(assessment),
    preemption && preemptionSaid(preemption),
    outside.length ? part("Outside data that plugins go by", h("dl", { class: "facts" }, outside.map(outsideFact))) : null,
    then && lastAttempt(explained),
  ];
}

function part(title, ...content) {
  return h("section", {}, h("h3", {}, title), ...content);
}

// -- where it is, and why ------------------------------------------------------------------------------------------

function standing({ state, node, nominated, profile, priority, requests, claims, attempts, then, binding, now: assessment, at }) {
  const place = state === "in flight" ? "active" : state === "waiting on permit" ? "binding" : state;
  const said = binding && binding.code !== 0 ? binding.message : node ? "" : assessment.message || then?.message || "";
  const wants = [...Object.entries(requests).map(([what, much]) => `${what} ${much}`), ...claims.map((name) => `claim ${name}`)];
  const facts = [
    wants.length ? `asks for ${wants.join(", ")}` : "asks for nothing",
    ...(priority ? [`priority ${number(priority)}`] : []),
    `profile ${profile}`,
    plural(attempts, "attempt"),
    `as of ${moment(at)}`,
  ];
  return h(
    "div",
    { class: "standing" },
    h(
      "p",
      {},
      h("span", { class: "place", "data-place": place }, state),
      node ? [" on ", nodeLink(node)] : null,
      nominated ? [", nominated to ", nodeLink(nominated)] : null,
    ),
    h("p", { class: "quiet" }, facts.join(" · ")),
    said ? h("p", { class: "message" }, said) : null,
  );
}

function helpful(help) {
  if (!help.length) return null;
  return part("What would help", h("ol", { class: "help" }, help.map(({ text }) => h("li", {}, text))));
}

function waitsFor({ queued_at, until, retried_at, held_by, why, wakers, active, hook }, at) {
  const facts = [
    held_by.length ? [hook ? "Its binding is in" : "Held back by", held_by.map((plugin) => (hook ? `${plugin}.${hook}` : plugin)).join(", ")] : null,
    why ? ["It says", why] : null,
    queued_at !== null ? ["There since", `${moment(queued_at)} (${span(at - queued_at)})`] : null,
    active ? ["Active pods", number(active)] : null,
    until !== null ? ["Until", `${moment(until)} (${span(until - at)})`] : null,
    retried_at !== null ? ["Tried anyway", `${moment(retried_at)} (in ${span(retried_at - at)})`] : null,
  ];
  return part("What it waits for", h("dl", { class: "facts" }, facts.filter(Boolean).map(fact), wakers.map(waker)));
}

function fact([name, ...values]) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, ...values));
}

function waker({ plugin, events }) {
  const resources = {};
  for (const [resource, actions] of Object.entries(events)) (resources[actions.map((action) => ACTIONS[action] ?? action).join(", ")] ??= []).push(resource);
  const said = Object.entries(resources).map(([actions, names]) => `${names.join(", ")} ${actions}`);
  return fact([`${plugin} is woken by`, said.length ? said.join(" · ") : "nothing"]);
}

// -- what stands against it ----------------------------------------------------------------------------------------

function against({ nodes: total, feasible, objections, details, kept_room, fault }) {
  const title = feasible ? `${plural(feasible, "node")} of ${number(total)} would do` : `None of ${plural(total, "node")} will do`;
  const rows = objections.map((objection) => againstRow(objection, total));
  const rooms = kept_room.map(({ node, pods }) => h("p", { class: "note" }, "Room is kept on ", nodeLink(node), ` for ${pods.join(", ")}.`));
  if (!rows.length) return part(title, fault ? h("p", { class: "note" }, fault) : null, ...rooms);
  const head = ["Nodes", "Reason", "Alone on"].map((name, index) => h("th", { scope: "col", class: index === 1 ? false : "number" }, name));
  return part(
    title,
    fault ? h("p", { class: "note" }, fault) : null,
    h("table", { class: "against" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
    ...details.map(behind),
    ...rooms,
  );
}

// What a plugin says in more words of one node: the first line of several that belong together is not indented.
function behind({ plugin, node, lines }) {
  const items = lines.map((line) => h("li", { "data-indented": line.startsWith("  ") }, line.trim()));
  return h("details", { class: "behind", open: true }, h("summary", {}, "On ", nodeLink(node), h("span", { class: "quiet" }, ` ${plugin} finds`)), h("ul", {}, items));
}

function againstRow({ plugin, reason, nodes: count, first, alone, examples, preemptible }, total) {
  const bar = s(
    "svg",
    { class: "share", viewBox: `0 0 ${Math.max(total, 1)} 1`, preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "any", width: count, height: 1 }),
    s("rect", { class: "first", width: first, height: 1 }),
  );
  const title = `${plugin} says so of ${plural(count, "node")}; on ${number(first)} nobody before it objects`;
  const marks = [plugin, preemptible ? "may go by preemption" : ""].filter(Boolean).join(" · ");
  return h(
    "tr",
    {},
    h("td", { class: "number", title }, number(count), bar),
    h(
      "th",
      { scope: "row" },
      reason,
      h("span", { class: "quiet" }, ` ${marks}`),
      h("p", { class: "examples" }, examples.map((name) => nodeLink(name)), count > examples.length ? ` and ${number(count - examples.length)} more` : ""),
    ),
    h("td", { class: "number", title: "Nodes on which nothing else stands against the pod" }, alone ? number(alone) : ""),
  );
}

function preemptionSaid({ node, victims, broken_budgets, why, in_progress, tried, candidates, reasons }) {
  const outcome = node
    ? [in_progress ? "It makes room on " : "It would make room on ", nodeLink(node), " by sending away ", joined(victims.map(podLink)), "."]
    : [why || "It would not help", "."];
  const counted = tried ? `${plural(tried, "node")} tried, ${number(candidates)} would do.` : "";
  const budgets = broken_budgets ? ` ${plural(broken_budgets, "disruption budget")} broken.` : "";
  const list = Object.entries(reasons).map(([reason, count]) => h("li", {}, `${number(count)} ${reason}`));
  return part("Preemption", h("p", { class: "sentence" }, ...outcome, ` ${counted}${budgets}`), list.length ? h("ul", { class: "reasons" }, list) : null);
}

function joined(elements) {
  return elements.flatMap((element, index) => (index ? [", ", element] : [element]));
}

// -- what decides between nodes ------------------------------------------------------------------------------------

// Each node a bar, each plugin a piece of it; then the best and the next in numbers.
function best({ top, margin, ties, decided_by, feasible }, own) {
  if (!top.length) return null;
  const most = Math.max(1, ...top.map(({ total }) => total));
  const plugins = top[0].scores.map(({ plugin }) => plugin);
  const said = ties > 1 ? `${number(ties)} are equally good.` : margin ? `The best is ahead by ${number(margin)}` + (decided_by ? `, most of it by ${decided_by}.` : ".") : "";
  if (!plugins.length && !said) return null; // nobody scored: there is nothing to compare
  return part(
    feasible > top.length ? `The best ${top.length} of ${plural(feasible, "feasible node")}` : "The feasible nodes, best first",
    said ? h("p", {}, said) : null,
    plugins.length ? h("div", { class: "ranking" }, top.map((node) => ranked(node, most, own))) : null,
    plugins.length ? comparison(top, decided_by) : null,
  );
}

function ranked({ node, place, total, scores }, most, own) {
  let x = 0;
  const pieces = scores.map(({ weighted }, index) => {
    const piece = s("rect", { class: `c${index % 10}`, x, width: Math.max(weighted, 0), height: 1 });
    x += Math.max(weighted, 0);
    return piece;
  });
  return h(
    "div",
    {},
    h("span", { class: "number quiet" }, `${place}.`),
    h("span", {}, nodeLink(node), node === own ? h("b", {}, " here") : null),
    s("svg", { viewBox: `0 0 ${most} 1`, preserveAspectRatio: "none", "aria-hidden": "true" }, pieces),
    h("span", { class: "number" }, number(total)),
  );
}

function comparison(top, decider) {
  const shown = top.slice(0, 2);
  const row = ({ plugin, weight }, index) =>
    h(
      "tr",
      { "data-decides": plugin === decider },
      h("th", { scope: "row" }, s("svg", { class: "swatch", viewBox: "0 0 1 1", "aria-hidden": "true" }, s("rect", { class: `c${index % 10}`, width: 1, height: 1 })), plugin),
      h("td", { class: "number" }, `× ${weight}`),
      shown.map(({ scores }) => scoreCell(scores.find((score) => score.plugin === plugin))),
    );
  const names = shown.map(({ node }) => h("th", { scope: "col", class: "number" }, node));
  return h(
    "div",
    { class: "scroll wide", role: "region", "aria-label": "Weighted scores, beside them raw and normalised", tabindex: "0" },
    h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Plugin"), h("th", { scope: "col", class: "number" }, "Weight"), names)), h("tbody", {}, top[0].scores.map(row))),
  );
}

function scoreCell({ raw, normalized, weighted }) {
  const title = `raw ${number(raw)}, normalised ${normalized}, weighted ${number(weighted)}`;
  return h("td", { class: "number", title }, number(weighted), h("span", { class: "quiet" }, ` ${number(raw)} → ${normalized}`));
}

// -- what was decided ----------------------------------------------------------------------------------------------

function lastAttempt({ then, binding }) {
  const outcome = [RESULTS[then.result].toLowerCase(), then.node ? ` on ${then.node}` : "", then.victims.length ? `, preempting ${then.victims.join(", ")}` : ""].join("");
  const steps = then.timings.map(([point, spent]) => `${point} ${took(spent)}`).join(" · ");
  const bound = binding && (binding.code === 0 ? `bound after ${took(Math.round((binding.ended_at - binding.started_at) * 1e9))}` : `not bound: ${binding.message}`);
  const facts = [
    ["At", `${moment(then.popped_at)}: ${outcome}`],
    ["Attempt", `number ${number(then.tries)} of this pod, ${number(then.attempt)} of all`],
    ["Nodes", `${number(then.feasible)} feasible of ${number(then.evaluated)} looked at, ${number(then.nodes)} in all`],
    then.message ? ["It said", then.message] : null,
    ["Took", steps],
    bound ? ["Binding", bound] : null,
  ];
  return part("The last attempt", h("dl", { class: "facts" }, facts.filter(Boolean).map(fact)));
}
