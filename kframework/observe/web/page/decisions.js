// The decisions as they come, the newest first.

const MAX_DECISIONS = 500;

let decisions = []; // newest first
let bindings = new Map(); // by attempt
let newest = 0;
let wantedResult = "";

async function refreshDecisions() {
  const answer = await source.ask("attempts", { after: newest });
  newest = Math.max(newest, answer.decisions[0]?.attempt ?? 0);
  decisions = [...answer.decisions, ...decisions];
  if (source.live) decisions = decisions.slice(0, MAX_DECISIONS);
  bindings = new Map([...bindings, ...answer.bindings.map((binding) => [binding.attempt, binding])]);
  const oldest = decisions.at(-1)?.attempt ?? 0;
  for (const attempt of bindings.keys()) if (attempt < oldest) bindings.delete(attempt);
  showDecisions(answer.last);
}

function showDecisions(last) {
  const counts = { scheduled: 0, unschedulable: 0, error: 0 };
  for (const { result } of decisions) counts[result] += 1;
  const list = [["", "All", decisions.length], ...Object.entries(RESULTS).map(([result, label]) => [result, label, counts[result]])];
  choices(byId("results"), list, wantedResult, (result) => {
    wantedResult = result;
    showDecisions(last);
  });
  const shown = decisions.filter(({ result }) => !wantedResult || result === wantedResult);
  keyed(byId("attempts"), shown, ({ attempt }) => attempt, attemptRow, fillAttemptRow);
  const more = last - decisions.length;
  write(byId("attempts-note"), more > 0 ? `${plural(more, "earlier attempt")} not shown.` : shown.length ? "" : "None yet.");
}

function attemptRow(decision) {
  const { attempt, poppedAt, pod, node, message, evaluated, feasible, nodes, timings, profile, podAttempts } = decision;
  const nanoseconds = timings.reduce((sum, [, spent]) => sum + spent, 0);
  const steps = timings.map(([point, spent]) => `${point} ${duration(spent)}`).join("\n");
  return h(
    "tr",
    { class: "attempt", title: `attempt ${attempt}, number ${podAttempts} of this pod, by ${profile}` },
    h("td", { class: "number quiet" }, moment(poppedAt)),
    h(
      "th",
      { scope: "row", "data-result": decision.result },
      podLink(pod),
      node ? [" → ", nodeLink(node)] : null,
      h("p", { class: "why", title: message }, node ? "" : firstSentence(message), preempted(decision)),
    ),
    h("td", { class: "number minor", title: `${number(nodes)} nodes` }, `${number(feasible)}/${number(evaluated)}`),
    h("td", { class: "number", title: steps }, nanoseconds ? duration(nanoseconds) : ""),
  );
}

function preempted({ victims, nominated }) {
  if (!victims.length) return "";
  return ` Preempts ${victims.slice(0, 3).join(", ")}${victims.length > 3 ? ` and ${victims.length - 3} more` : ""} on ${nominated}.`;
}

// How the binding cycle ended, which the decision could not know.
function fillAttemptRow(row, { attempt, node }) {
  const binding = bindings.get(attempt);
  if (!node || binding === undefined || row.dataset.bound) return;
  row.dataset.bound = binding.code === 0 ? "yes" : "no";
  if (binding.code !== 0) row.querySelector(".why").append(visible(`Not bound: ${binding.message}`));
}
