// Where the page's data comes from: asked of the scheduler again and again, or embedded in a report once and for all.
// Both give the same records (kframework/web/*.py).

const embedded = JSON.parse(byId("data").textContent);

const source = embedded === null ? { live: true, start: null, ask: askScheduler } : fromReport(embedded);

async function askScheduler(view, parameters) {
  const query = new URLSearchParams(parameters);
  const path = view === "explain" ? "explain" : `view/${view}`;
  const response = await fetch(`${path}?${query}`, { cache: "no-store" });
  if (response.ok) return response.json();
  throw new Refusal(await response.json().then(({ error }) => error, () => `The answer was ${response.status} ${response.statusText}.`));
}

// What the scheduler answered, but not with what was asked for.
class Refusal extends Error {}

function fromReport(data) {
  const answers = {
    summary: () => data.summary,
    queues: (wanted) => chosenPods(data.queues, wanted),
    sections: () => data.sections,
    attempts: (wanted) => attemptsOf(data.attempts, wanted),
    nodes: () => data.nodes,
    profiles: () => data.profiles,
    node: ({ name }) => kept(data.node_pods, name, "The pods of this node are not in this report."),
    find: ({ text }) => foundPods(data, text),
    details: ({ sort, name }) => data.details[sort]?.[name] ?? { sections: [], explained: true },
    explain: (wanted) => {
      const [[sort, name]] = Object.entries(wanted);
      return kept(data.explanations[sort] ?? {}, name, `No explanation of this ${sort} is in this report.`);
    },
  };
  return { live: false, start: data.start, ask: async (view, parameters) => answers[view](parameters) };
}

function kept(of, name, otherwise) {
  if (!Object.hasOwn(of, name)) throw new Refusal(otherwise);
  return of[name];
}

function attemptsOf(attempts, { after, pod }) {
  if (after) return { ...attempts, decisions: [], bindings: [] };
  if (pod === undefined) return attempts;
  const decisions = attempts.decisions.filter((decision) => decision.pod === pod);
  return { ...attempts, decisions, bindings: attempts.bindings.filter((binding) => binding.pod === pod) };
}

// The same choice that the scheduler makes for a live page.
function chosenPods(queues, { place, profile, plugin }) {
  if (!place && !plugin) return queues;
  const holds = (pod) => pod.held && pod.profile === profile && (pod.plugins ?? []).includes(plugin);
  const pods = queues.pods.filter((pod) => (plugin ? holds(pod) : pod.place === place));
  const held = queues.held.find((each) => each.profile === profile && each.plugin === plugin);
  return { ...queues, pods, total: plugin ? (held?.pods ?? 0) : (queues.counts[place] ?? 0) };
}

function foundPods(data, text) {
  const known = new Map();
  for (const pod of data.queues.pods) known.set(pod.pod, { pod: pod.pod, place: pod.place, node: pod.node ?? "" });
  for (const { node, pods } of Object.values(data.node_pods)) {
    for (const { pod } of pods) if (!known.has(pod)) known.set(pod, { pod, place: "", node });
  }
  for (const { pod, node } of data.attempts.decisions) if (!known.has(pod)) known.set(pod, { pod, place: "", node });
  return [...known.values()].filter(({ pod }) => pod.includes(text)).slice(0, 50);
}
