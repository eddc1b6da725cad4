// One pod's explanation: its state, remedies, rejections, and the scores of the best nodes.

function podExplained(explained) {
  const { assessment, lastDecision: last, remedies, notes, sources, preemption, waiting, choice } = explained;
  return [
    podState(explained),
    lateFailure(explained.lateFailure),
    notes.map((note) => h("p", { class: "note" }, note)),
    explained.group && groupPart(explained.group),
    remedyList(remedies, explained.group ? "What would help this pod alone" : "What would help"),
    waiting && waitPart(waiting, explained.at),
    choice && choicePart(choice),
    scorePart(assessment, explained.node),
    rejectionPart(assessment),
    preemption && preemptionPart(preemption),
    sources.length ? part("Outside data that plugins use", h("dl", { class: "facts" }, sources.map(sourceFact))) : null,
    last && lastAttempt(explained),
  ];
}

function part(title, ...content) {
  return h("section", {}, h("h3", {}, title), ...content);
}

// -- its state --------------------------------------------------------------------------------------------------------

function podState({ state, node, nominated, profile, priority, requests, claims, attempts, lastDecision: last, binding, assessment, group, at }) {
  const queue = state === "in flight" ? "active" : state === "waiting on permit" ? "binding" : state;
  const message = binding && binding.code !== 0 ? binding.message : node ? "" : assessment.message || last?.message || "";
  const requested = [...Object.entries(requests).map(([resource, amount]) => `${resource} ${amount}`), ...claims.map((name) => `claim ${name}`)];
  const facts = [
    requested.length ? `requests ${requested.join(", ")}` : "no requests",
    ...(priority ? [`priority ${number(priority)}`] : []),
    `profile ${profile}`,
    plural(attempts, "attempt"),
    `as of ${moment(at)}`,
  ];
  return h(
    "div",
    { class: "pod-state" },
    h(
      "p",
      {},
      h("span", { class: "queue", "data-queue": queue }, state),
      node ? [" on ", nodeLink(node)] : null,
      nominated ? [", nominated to ", nodeLink(nominated)] : null,
    ),
    h("p", { class: "quiet" }, facts.join(" · ")),
    message && message !== group?.condition ? h("p", { class: "message" }, message) : null,
  );
}

function lateFailure(late) {
  if (!late) return null;
  const by = late.plugins.length ? ` by ${late.plugins.join(", ")}` : "";
  return h("p", { class: "note" }, `${late.rejected ? "Rejected" : "Failed"} at ${late.point}${by} in the last attempt; no hook after Score is called here.`);
}

// -- its group --------------------------------------------------------------------------------------------------------

const GROUP_PLACEMENTS = 5;
const GROUP_NODES = 3;

function groupPart(group) {
  const { name, exists, tree, failedGroups, lacks, minimum, domain, pods, scheduled, failedFirst, reason, fits, condition, remedies } = group;
  const policy = minimum === null ? "not a gang" : `a gang of at least ${number(minimum)}`;
  const facts = [policy, ...(tree ? [`below CompositePodGroup ${tree}`] : []), ...(domain ? [`within one ${domain}`] : []), `${number(scheduled)} of ${plural(pods, "pod")} scheduled`];
  if (fits !== null) facts.push(`${number(fits)} of ${number(pods - scheduled)} waiting find nodes together now`);
  const missing = `There is no PodGroup (scheduling.k8s.io) of this name; ${plural(pods, "pod")} waiting for it.`;
  const first = failedFirst ? [["Failed first", podLink(failedFirst), `: ${reason}`]] : [];
  const others = Object.entries(failedGroups).map(([group, why]) => [`Group ${group} of the tree`, why]);
  const waits = lacks ? [["Waits for", lacks]] : [];
  const rows = [...waits, ...others, ...first, ...placementFacts(group), ...memberFacts(group)];
  return [
    part(`Group ${name}`, h("p", {}, exists ? facts.join(" · ") : missing), condition ? h("p", { class: "message" }, condition) : null, h("dl", { class: "facts" }, rows.map(fact))),
    remedyList(remedies, "What would help the group"),
  ];
}

function placementFacts({ placement, placements, placementsLeftOut }) {
  const tried = placements.length + placementsLeftOut;
  if (placement) return [["Placement", `${placement}, of ${number(tried)} tried`]];
  const shown = placements.slice(0, GROUP_PLACEMENTS);
  const rejected = shown.map(({ name, placed, message, failedFirst, reason }) => [
    `Placement ${name}`,
    `${plural(placed, "pod")} placed; ${failedFirst ? `${shortName(failedFirst)}: ` : ""}${reason || message}`,
  ]);
  const more = tried - shown.length;
  return more > 0 ? [...rejected, ["", `and ${plural(more, "more placement")}`]] : rejected;
}

// One fact for all pods with the same state and message; what was said above is not repeated.
function memberFacts({ members, condition, failedFirst, reason }) {
  const said = (message) => (message === condition ? "as the group" : message === reason ? `as ${shortName(failedFirst)}` : message);
  const others = members.filter(({ pods, message }) => pods.length > 1 || pods[0] !== failedFirst || message !== reason);
  return others.map(({ pods, state, nodes, message }) => {
    const distinct = [...new Set(nodes)];
    const more = distinct.length - GROUP_NODES;
    const where = distinct.length ? ` on ${distinct.slice(0, GROUP_NODES).join(", ")}${more > 0 ? ` and ${number(more)} more` : ""}` : "";
    const names = h("span", { title: pods.map(shortName).join(", ") }, pods.length === 1 ? shortName(pods[0]) : plural(pods.length, "pod"));
    return [names, `${state}${where}${message ? `: ${said(message)}` : ""}`];
  });
}

function shortName(pod) {
  return pod.slice(pod.indexOf("/") + 1);
}

function remedyList(remedies, title) {
  if (!remedies.length) return null;
  return part(title, h("ol", { class: "help" }, remedies.map(({ text }) => h("li", {}, text))));
}

function waitPart({ queuedAt, until, retriedAt, heldBy, why, wakers, active, hook }, at) {
  const facts = [
    heldBy.length ? [hook ? "Binding waits in" : "Held back by", heldBy.map((plugin) => (hook ? `${plugin}.${hook}` : plugin)).join(", ")] : null,
    why ? ["Message", why] : null,
    queuedAt !== null ? ["Since", `${moment(queuedAt)} (${span(at - queuedAt)})`] : null,
    active ? ["Active pods", number(active)] : null,
    until !== null ? ["Until", `${moment(until)} (${span(until - at)})`] : null,
    retriedAt !== null ? ["Retried at", `${moment(retriedAt)} (in ${span(retriedAt - at)})`] : null,
  ];
  return part("What it waits for", h("dl", { class: "facts" }, facts.filter(Boolean).map(fact), wakers.map(waker)));
}

function fact([name, ...values]) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, ...values));
}

function waker({ plugin, events }) {
  const resources = {};
  for (const [resource, actions] of Object.entries(events)) (resources[actions.map((action) => ACTIONS[action] ?? action).join(", ")] ??= []).push(resource);
  const texts = Object.entries(resources).map(([actions, names]) => `${names.join(", ")} ${actions}`);
  return fact([`${plugin} is woken by`, texts.length ? texts.join(" · ") : "no event"]);
}

// -- its node and the runner-up ---------------------------------------------------------------------------------------

function choicePart({ message, runnerUp: other, weightChanges: changes }) {
  const weights = changes.map(({ plugin, weight, newWeight: instead }) => h("li", {}, `${plugin} ${weight} → ${instead}`));
  const list = h("details", {}, h("summary", {}, "Weights that would put it on ", nodeLink(other)), h("ul", { class: "reasons" }, weights));
  return part("Why here", h("p", { class: "sentence" }, message), changes.length > 1 ? list : null);
}

// -- rejections -------------------------------------------------------------------------------------------------------

function rejectionPart({ nodes: total, feasible, rejections, details, keptRoom, fault }) {
  const title = `${number(feasible)} of ${plural(total, "node")} ${feasible === 1 ? "fits" : "fit"}`;
  const rows = rejections.map((rejection) => rejectionRow(rejection, total));
  const rooms = keptRoom.map(({ node, pods }) => h("p", { class: "note" }, "Room on ", nodeLink(node), ` is kept for ${pods.join(", ")}.`));
  if (!rows.length) return part(title, fault ? h("p", { class: "note" }, fault) : null, ...rooms);
  const head = ["Nodes", "Reason", "Only"].map((name, index) => h("th", { scope: "col", class: index === 1 ? false : "number" }, name));
  return part(
    title,
    fault ? h("p", { class: "note" }, fault) : null,
    h("table", { class: "rejections" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
    ...details.map(rejectionDetails),
    ...rooms,
  );
}

// A plugin's details about one node; indented lines continue the line above.
function rejectionDetails({ plugin, node, lines }) {
  const items = lines.map((line) => h("li", { "data-indented": line.startsWith("  ") }, line.trim()));
  return h("details", { class: "rejection-details", open: true }, h("summary", {}, `${plugin} on `, nodeLink(node)), h("ul", {}, items));
}

function rejectionRow({ plugin, reason, nodes: count, first, alone, examples, preemptible }, total) {
  const bar = s(
    "svg",
    { class: "share", viewBox: `0 0 ${Math.max(total, 1)} 1`, preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "any", width: count, height: 1 }),
    s("rect", { class: "first", width: first, height: 1 }),
  );
  const title = `${plugin} rejects ${plural(count, "node")} for this reason, ${number(first)} of them as the first plugin`;
  const marks = [plugin, preemptible ? "preemption may resolve it" : ""].filter(Boolean).join(" · ");
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
    h("td", { class: "number", title: "Nodes rejected for this reason alone" }, alone ? number(alone) : ""),
  );
}

function preemptionPart({ node, victims, brokenBudgets, why, inProgress, tried, candidates, reasons }) {
  const outcome = node
    ? [inProgress ? "Waiting for " : "Evicting ", separated(victims.map(podLink)), inProgress ? " to leave " : " makes room on ", nodeLink(node), "."]
    : [`Preemption would not help: ${why}.`];
  const counted = tried ? `${plural(tried, "node")} tried, ${number(candidates)} would have room.` : "";
  const budgets = brokenBudgets ? ` ${plural(brokenBudgets, "disruption budget")} violated.` : "";
  const list = Object.entries(reasons).map(([reason, count]) => h("li", {}, `${number(count)} ${reason}`));
  return part("Preemption", h("p", { class: "sentence" }, ...outcome, ` ${counted}${budgets}`), list.length ? h("ul", { class: "reasons" }, list) : null);
}

function separated(elements) {
  return elements.flatMap((element, index) => (index ? [", ", element] : [element]));
}

// -- scores -----------------------------------------------------------------------------------------------------------

// One bar per node, with one segment per plugin; below, the best two nodes in numbers.
function scorePart({ top, margin, ties, decidedBy, feasible }, own) {
  if (!top.length) return null;
  const most = Math.max(1, ...top.map(({ total }) => total));
  const plugins = top[0].scores.map(({ plugin }) => plugin);
  const text = ties > 1 ? `${number(ties)} nodes share the best score.` : margin ? `The best leads by ${number(margin)}` + (decidedBy ? `, mostly because of ${decidedBy}.` : ".") : "";
  if (!plugins.length && !text) return null; // not scored: nothing to compare
  return part(
    feasible > top.length ? `The best ${top.length} of ${plural(feasible, "feasible node")}` : "The feasible nodes, best first",
    text ? h("p", {}, text) : null,
    plugins.length ? h("div", { class: "ranking" }, top.map((node) => scoreBar(node, most, own))) : null,
    plugins.length ? comparison(top, decidedBy) : null,
  );
}

function scoreBar({ node, rank, total, scores }, most, own) {
  let x = 0;
  const pieces = scores.map(({ weighted }, index) => {
    const piece = s("rect", { class: `c${index % 10}`, x, width: Math.max(weighted, 0), height: 1 });
    x += Math.max(weighted, 0);
    return piece;
  });
  return h(
    "div",
    {},
    h("span", { class: "number quiet" }, `${rank}.`),
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

// -- the last attempt -------------------------------------------------------------------------------------------------

function lastAttempt({ lastDecision: last, binding }) {
  const outcome = [RESULTS[last.result].toLowerCase(), last.node ? ` on ${last.node}` : "", last.victims.length ? `, preempting ${last.victims.join(", ")}` : ""].join("");
  const steps = last.timings.map(([point, spent]) => `${point} ${duration(spent)}`).join(" · ");
  const bound = binding && (binding.code === 0 ? `bound after ${duration(Math.round((binding.endedAt - binding.startedAt) * 1e9))}` : `not bound: ${binding.message}`);
  const facts = [
    ["At", `${moment(last.poppedAt)}: ${outcome}`],
    ["Attempt", `number ${number(last.podAttempts)} of this pod, ${number(last.attempt)} of all`],
    ["Nodes", `${number(last.feasible)} feasible of ${number(last.evaluated)} evaluated, ${number(last.nodes)} in all`],
    last.message ? ["Message", last.message] : null,
    ["Took", steps],
    bound ? ["Binding", bound] : null,
  ];
  return part("The last attempt", h("dl", { class: "facts" }, facts.filter(Boolean).map(fact)));
}
