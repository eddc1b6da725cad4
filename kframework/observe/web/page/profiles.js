// The profiles: which plugins stand at which points, and where the time of the last attempts went.

const POINTS = [
  "pre_enqueue",
  "queue_sort",
  "pre_filter",
  "filter",
  "post_filter",
  "pre_score",
  "score",
  "reserve",
  "permit",
  "pre_bind",
  "bind",
  "post_bind",
];

async function refreshProfiles() {
  const parts = await source.ask("profiles", {});
  keyed(byId("parts"), parts, (part) => part.name, profileFrame, fillProfile);
}

function profileFrame({ name }) {
  return h(
    "article",
    { "aria-label": `Profile ${name}` },
    h("h3", {}, name),
    h("p", { class: "note" }),
    h("ol", { class: "shares" }),
    h(
      "details",
      {},
      h("summary"),
      h("div", { class: "scroll wide", role: "region", "aria-label": `Plugins of ${name}`, tabindex: "0" }),
    ),
    h("dl", { class: "facts" }),
  );
}

function fillProfile(article, part) {
  const [, said, shares, details, outside] = article.children;
  const timed = part.points.filter((time) => time.total > 0 && time.what !== "wait_on_permit"); // to wait is no work
  const total = timed.reduce((sum, time) => sum + time.total, 0);
  const mean = part.attempts ? took(Math.round(total / part.attempts)) : "";
  write(said, part.attempts ? `${mean} for an attempt and its binding, over the last ${number(part.attempts)}` : "No attempts yet");
  keyed(
    shares,
    timed,
    (time) => time.what,
    (time) => h("li", { "data-point": time.what }, h("span"), h("b")),
    (item, time) => {
      item.style.flexGrow = time.total / total;
      write(item.children[0], time.what);
      write(item.children[1], percent(time.total, total));
      set(item, "title", `${time.what}: ${took(Math.round(time.total / time.times))} each of ${number(time.times)} times`);
    },
  );
  write(details.firstChild, plural(part.plugins.length, "plugin"));
  details.lastChild.replaceChildren(pluginTable(part));
  outside.replaceChildren(...part.outside.map(sourceFact));
}

function sourceFact({ plugin, source, by, values, age, fresh, when_stale, error }) {
  const told = age === null ? "has no data yet" : `${plural(values, by)}, told ${span(age)} ago`;
  const lacking = { reject: "its pods are rejected", ignore: "the plugin is left out", hold: "pods are held" }[when_stale];
  const said = [told, ...(fresh ? [] : [age === null ? lacking : `stale, ${lacking}`]), ...(error ? [error] : [])];
  return fact([`${plugin}, source ${source}`, said.join(" · ")]);
}

function pluginTable({ points, plugins }) {
  const used = POINTS.filter((point) => plugins.some(({ places }) => point in places));
  const timing = new Map(points.map((time) => [time.what, time]));
  const each = (time) => (time && time.times ? took(Math.round(time.total / time.times)) : "");
  return h(
    "table",
    { class: "plugins" },
    h(
      "thead",
      {},
      h("tr", {}, h("th", { scope: "col" }, "Plugin"), h("th", { scope: "col", class: "number" }, "Weight"), ...used.map((point) => h("th", { scope: "col" }, point))),
      h("tr", { class: "times" }, h("th", { scope: "row" }, "all of them, on average"), h("td"), ...used.map((point) => h("td", {}, each(timing.get(point))))),
    ),
    h("tbody", {}, plugins.map((plugin) => pluginRow(plugin, used, each))),
  );
}

function pluginRow({ name, distribution, weight, places, times }, used, each) {
  const timed = new Map(times.map((time) => [time.what, time]));
  return h(
    "tr",
    {},
    h("th", { scope: "row", title: distribution }, name, distribution.startsWith("kframework-sdk") ? null : h("span", { class: "quiet" }, ` ${distribution}`)),
    h("td", { class: "number" }, weight === null ? "" : weight),
    ...used.map((point) =>
      point in places
        ? h("td", { class: "at", title: `${places[point]}. at ${point}` }, h("i", {}, places[point]), each(timed.get(point)))
        : h("td"),
    ),
  );
}
