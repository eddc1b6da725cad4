// Puts the page together: asks for what it shows, and goes on asking as long as it is looked at.

const views = {
  summary: { refresh: async () => showSummary(await source.ask("summary", {})), every: 2000 },
  sections: { refresh: refreshSections, every: 2000 },
  queues: { refresh: refreshWaiting, every: 2000 },
  attempts: { refresh: refreshDecisions, every: 2000 },
  nodes: { refresh: refreshNodes, every: 5000 },
  profiles: { refresh: refreshProfiles, every: 5000 },
};

const faults = new Map(); // what went wrong with which view
let paused = false;
let heard = null; // when the scheduler last answered

async function refresh(view) {
  try {
    await views[view].refresh();
    faults.delete(view);
    heard = new Date();
  } catch (fault) {
    faults.set(view, fault);
    if (!(fault instanceof Refusal) && !unreachable(fault)) throw fault;
  } finally {
    showState();
  }
}

// Whether that is how fetch says that there was no answer, or none in JSON.
function unreachable(fault) {
  return source.live && (fault instanceof TypeError || fault instanceof SyntaxError);
}

async function follow(view) {
  await turn(view);
  setTimeout(follow, views[view].every, view);
}

async function turn(view) {
  if (!paused && document.visibilityState === "visible") await refresh(view);
}

function showState() {
  const at = heard === null ? "" : heard.toLocaleTimeString("en-GB");
  const [state, text] = !source.live
    ? ["report", embedded.title]
    : faults.size
      ? ["lost", heard === null ? "no answer" : `no answer since ${at}`]
      : paused
        ? ["paused", `paused at ${at}`]
        : ["live", at];
  set(byId("state"), "data-state", state);
  write(byId("state"), text);
}

// -- finding ----------------------------------------------------------------------------------------------------------

const PAUSE = 150; // milliseconds after a key, before all pods are looked through

let typed = 0; // counts what was typed, so that a late answer is dropped

async function find(text) {
  typed += 1;
  const mine = typed;
  await new Promise((resolve) => setTimeout(resolve, PAUSE));
  if (mine !== typed) return;
  const pods = text ? await source.ask("find", { text }) : [];
  if (mine === typed) showFound(text, pods);
}

function showFound(text, pods) {
  const names = text && nodes !== null ? nodes.names.filter((name) => name.includes(text)).slice(0, 10) : [];
  const entries = [
    ...pods.map(({ pod, place, node }) => [podHash(pod), pod, node || placeName(place)]),
    ...names.map((name) => [nodeHash(name), name, "node"]),
  ];
  const list = byId("found");
  const links = entries.map(([href, name, where]) => h("li", {}, h("a", { href }, name, h("span", { class: "quiet" }, ` ${where}`))));
  list.replaceChildren(...(text && !links.length ? [h("li", { class: "quiet" }, "Nothing has this in its name.")] : links));
  list.hidden = !text;
}

function listenToFind() {
  const [field, list] = [byId("find"), byId("found")];
  field.addEventListener("input", () => find(field.value.trim()));
  field.closest("search").addEventListener("keydown", (event) => {
    const links = [field, ...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)].focus();
    else if (event.key === "ArrowUp") links[Math.max(at - 1, 0)].focus();
    else if (event.key === "Enter" && at === 0 && links.length > 1) location.hash = links[1].hash;
    else if (event.key === "Escape") leaveFind();
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

function leaveFind() {
  typed += 1;
  byId("find").value = "";
  showFound("", []);
}

// -- what the address names -------------------------------------------------------------------------------------------

function followAddress() {
  const [kind, name] = location.hash.slice(1).split("/", 2);
  if (name !== undefined) {
    leaveFind();
    openDetail(decodeURIComponent(kind), decodeURIComponent(name));
  } else closeDetail();
}

// -- begin ------------------------------------------------------------------------------------------------------------

listenToFind();
listenToDetail();
addEventListener("hashchange", followAddress);
addEventListener("resize", () => requestAnimationFrame(showNodes));
byId("pause").addEventListener("click", () => {
  paused = !paused;
  set(byId("pause"), "aria-pressed", String(paused));
  write(byId("pause"), paused ? "Go on" : "Pause");
  showState();
});
byId("pause").hidden = !source.live;
if (source.live) for (const view of Object.keys(views)) follow(view);
else for (const view of Object.keys(views)) refresh(view);
followAddress();
