// Refreshes each view as long as the page is visible.

const views = {
  summary: { refresh: async () => showSummary(await source.ask("summary", {})), every: 2000 },
  sections: { refresh: refreshSections, every: 2000 },
  queues: { refresh: refreshWaiting, every: 2000 },
  attempts: { refresh: refreshDecisions, every: 2000 },
  nodes: { refresh: refreshNodes, every: 5000 },
  profiles: { refresh: refreshProfiles, every: 5000 },
};

const faults = new Map(); // the last error of each view
let paused = false;
let answeredAt = null; // the time of the last answer

async function refresh(view) {
  try {
    await views[view].refresh();
    faults.delete(view);
    answeredAt = new Date();
  } catch (fault) {
    faults.set(view, fault);
    if (!(fault instanceof ViewError) && !unreachable(fault)) throw fault;
  } finally {
    showState();
  }
}

// Whether fetch got no answer, or one that is not JSON.
function unreachable(fault) {
  return source.live && (fault instanceof TypeError || fault instanceof SyntaxError);
}

async function follow(view) {
  await refreshIfVisible(view);
  setTimeout(follow, views[view].every, view);
}

async function refreshIfVisible(view) {
  if (!paused && document.visibilityState === "visible") await refresh(view);
}

function showState() {
  const at = answeredAt === null ? "" : answeredAt.toLocaleTimeString("en-GB");
  const [state, text] = !source.live
    ? ["report", embedded.title]
    : faults.size
      ? ["lost", answeredAt === null ? "no answer" : `no answer since ${at}`]
      : paused
        ? ["paused", `paused at ${at}`]
        : ["live", at];
  set(byId("state"), "data-state", state);
  write(byId("state"), text);
}

// -- find -------------------------------------------------------------------------------------------------------------

const PAUSE = 150; // milliseconds after a key, before the search starts

let typed = 0; // counts what was typed, so that a late answer is dropped

async function find(text) {
  typed += 1;
  const query = typed;
  await new Promise((resolve) => setTimeout(resolve, PAUSE));
  if (query !== typed) return;
  const pods = text ? await source.ask("find", { text }) : [];
  if (query === typed) showMatches(text, pods);
}

function showMatches(text, pods) {
  const names = text && nodes !== null ? nodes.names.filter((name) => name.includes(text)).slice(0, 10) : [];
  const entries = [
    ...pods.map(({ pod, queue, node }) => [podHash(pod), pod, node || queueName(queue)]),
    ...names.map((name) => [nodeHash(name), name, "node"]),
  ];
  const list = byId("matches");
  const links = entries.map(([href, name, where]) => h("li", {}, h("a", { href }, name, h("span", { class: "quiet" }, ` ${where}`))));
  list.replaceChildren(...(text && !links.length ? [h("li", { class: "quiet" }, "No pod or node matches.")] : links));
  list.hidden = !text;
}

function setUpFind() {
  const [field, list] = [byId("find"), byId("matches")];
  field.addEventListener("input", () => find(field.value.trim()));
  field.closest("search").addEventListener("keydown", (event) => {
    const links = [field, ...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)].focus();
    else if (event.key === "ArrowUp") links[Math.max(at - 1, 0)].focus();
    else if (event.key === "Enter" && at === 0 && links.length > 1) location.hash = links[1].hash;
    else if (event.key === "Escape") closeFind();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, dialog")) return;
    event.preventDefault();
    field.focus();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("search")) list.hidden = true;
  });
}

function closeFind() {
  typed += 1;
  byId("find").value = "";
  showMatches("", []);
}

// -- the address ------------------------------------------------------------------------------------------------------

function followAddress() {
  const [kind, name] = location.hash.slice(1).split("/", 2);
  if (name !== undefined) {
    closeFind();
    openDetail(decodeURIComponent(kind), decodeURIComponent(name));
  } else closeDetail();
}

// -- start ------------------------------------------------------------------------------------------------------------

setUpFind();
setUpDetail();
addEventListener("hashchange", followAddress);
addEventListener("resize", () => requestAnimationFrame(showNodes));
byId("pause").addEventListener("click", () => {
  paused = !paused;
  set(byId("pause"), "aria-pressed", String(paused));
  write(byId("pause"), paused ? "Resume" : "Pause");
  showState();
});
byId("pause").hidden = !source.live;
if (source.live) for (const view of Object.keys(views)) follow(view);
else for (const view of Object.keys(views)) refresh(view);
followAddress();
