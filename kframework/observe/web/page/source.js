// The source of the page's data: the scheduler, or data embedded in a report. Both return the same records.

const embedded = JSON.parse(byId("data").textContent);

const source = embedded === null ? { live: true, start: null, ask: askScheduler } : fromReport(embedded);

async function askScheduler(view, parameters) {
  const query = new URLSearchParams(parameters);
  const path = view === "explain" ? "explain" : `view/${view}`;
  const response = await fetch(`${path}?${query}`, { cache: "no-store" });
  if (response.ok) return response.json();
  throw new ViewError(await response.json().then(({ error }) => error, () => `The answer was ${response.status} ${response.statusText}.`));
}

// The scheduler answered with an error.
class ViewError extends Error {}

function fromReport(data) {
  const answers = {
    summary: () => data.summary,
    queues: (wanted) => selectPods(data.queues, wanted),
    sections: () => data.sections,
    attempts: (wanted) => attemptsOf(data.attempts, wanted),
    nodes: () => data.nodes,
    profiles: () => data.profiles,
    node: ({ name }) => lookUp(data.nodePods, name, "The pods of this node are not in this report."),
    find: ({ text }) => findPods(data, text),
    details: ({ kind, name }) => data.details[kind]?.[name] ?? { sections: [], hasExplanation: true },
    explain: (wanted) => {
      const [[kind, name]] = Object.entries(wanted);
      return lookUp(data.explanations[kind] ?? {}, name, `No explanation of this ${kind} is in this report.`);
    },
  };
  return { live: false, start: data.start, ask: async (view, parameters) => answers[view](parameters) };
}

function lookUp(values, name, message) {
  if (!Object.hasOwn(values, name)) throw new ViewError(message);
  return values[name];
}

function attemptsOf(attempts, { after, pod }) {
  if (after) return { ...attempts, decisions: [], bindings: [] };
  if (pod === undefined) return attempts;
  const decisions = attempts.decisions.filter((decision) => decision.pod === pod);
  return { ...attempts, decisions, bindings: attempts.bindings.filter((binding) => binding.pod === pod) };
}

// The same selection as the scheduler makes for a live page.
function selectPods(queues, { queue, profile, plugin }) {
  if (!queue && !plugin) return queues;
  const holds = (pod) => pod.held && pod.profile === profile && (pod.plugins ?? []).includes(plugin);
  const pods = queues.pods.filter((pod) => (plugin ? holds(pod) : pod.queue === queue));
  const held = queues.held.find((each) => each.profile === profile && each.plugin === plugin);
  return { ...queues, pods, total: plugin ? (held?.pods ?? 0) : (queues.counts[queue] ?? 0) };
}

function findPods(data, text) {
  const known = new Map();
  for (const pod of data.queues.pods) known.set(pod.pod, { pod: pod.pod, queue: pod.queue, node: pod.node ?? "" });
  for (const { node, pods } of Object.values(data.nodePods)) {
    for (const { pod } of pods) if (!known.has(pod)) known.set(pod, { pod, queue: "", node });
  }
  for (const { pod, node } of data.attempts.decisions) if (!known.has(pod)) known.set(pod, { pod, queue: "", node });
  return [...known.values()].filter(({ pod }) => pod.includes(text)).slice(0, 50);
}
