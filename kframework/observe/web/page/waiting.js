// The pods that wait, by queue and by the plugin that holds them back.

const MOST_HOLDERS = 8;

const wanted = { queue: "", profile: "", plugin: "" }; // which of the waiting pods are shown

async function refreshWaiting() {
  const parameters = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value));
  showWaiting(await source.ask("queues", parameters));
}

function want(queue, profile, plugin) {
  Object.assign(wanted, { queue, profile, plugin });
  refresh("queues");
}

function showWaiting({ counts, held, total, pods }) {
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const queues = Object.entries(counts).map(([queue, count]) => [queue, queueName(queue), count]);
  choices(byId("queues"), [["", "All", all], ...queues], wanted.plugin ? null : wanted.queue, (queue) => want(queue, "", ""));
  showHolders(held);
  keyed(byId("pods"), pods, (pod) => pod.pod, waitingRow, fillWaitingRow);
  const note = total > pods.length ? `The first ${number(pods.length)} of ${number(total)}.` : pods.length ? "" : "No pod waits here.";
  write(byId("pods-note"), note);
}

function showHolders(held) {
  const several = (plugin) => held.filter((each) => each.plugin === plugin).length > 1;
  const list = held.slice(0, MOST_HOLDERS).map(({ profile, plugin, pods }) => [
    `${profile}/${plugin}`,
    several(plugin) ? `${plugin} of ${profile}` : plugin,
    pods,
  ]);
  const chosen = wanted.plugin ? `${wanted.profile}/${wanted.plugin}` : null;
  choices(byId("holders"), list, chosen, (value) => {
    const at = value.lastIndexOf("/");
    if (value === chosen) want("", "", "");
    else want("", value.slice(0, at), value.slice(at + 1));
  });
}

function waitingRow(pod) {
  const held = h("p", { class: "held" }, h("span", { class: "queue" }), " ", h("span", { class: "quiet" }));
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, podLink(pod.pod), held, h("p", { class: "why" })),
    h("td", { class: "number" }),
    h("td", { class: "number" }),
  );
}

function fillWaitingRow(row, pod) {
  const [name, tries, age] = row.children;
  const [, held, why] = name.children;
  const [queue, plugins] = held.children;
  set(queue, "data-queue", pod.queue);
  set(queue, "data-held", pod.held ?? false);
  write(queue, queueName(pod.queue) + wait(pod) + (pod.group ? ` · group ${pod.group}` : ""));
  write(plugins, (pod.plugins ?? []).map((plugin) => (pod.hook ? `in ${plugin}.${pod.hook} for ${span(now - pod.hookSince)}` : plugin)).join(", "));
  write(why, firstSentence(pod.message ?? ""));
  set(why, "title", pod.message);
  write(tries, pod.tries);
  write(age, span(now - (pod.createdAt ?? pod.queuedAt)));
}

// The remaining wait and the node, as far as known.
function wait(pod) {
  const until = pod.until === undefined ? "" : ` ${span(pod.until - now)}`;
  return pod.node ? `${until} → ${pod.node}` : until;
}
