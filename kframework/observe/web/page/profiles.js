// The profiles: the plugins at each point, and the time spent in the last attempts.

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
  const [, note, shares, details, outside] = article.children;
  const timed = part.points.filter((time) => time.total > 0 && time.point !== "wait_on_permit"); // waiting is not work
  const total = timed.reduce((sum, time) => sum + time.total, 0);
  const mean = part.attempts ? duration(Math.round(total / part.attempts)) : "";
  write(note, part.attempts ? `${mean} for an attempt and its binding, over the last ${number(part.attempts)}` : "No attempts yet");
  keyed(
    shares,
    timed,
    (time) => time.point,
    (time) => h("li", { "data-point": time.point }, h("span"), h("b")),
    (item, time) => {
      item.style.flexGrow = time.total / total;
      write(item.children[0], time.point);
      write(item.children[1], percent(time.total, total));
      set(item, "title", `${time.point}: ${duration(Math.round(time.total / time.calls))} each of ${number(time.calls)} times`);
    },
  );
  write(details.firstChild, plural(part.plugins.length, "plugin"));
  details.lastChild.replaceChildren(pluginTable(part));
  outside.replaceChildren(...part.sources.map(sourceFact));
}

function sourceFact({ plugin, source, by, values, age, fresh, whenStale, error }) {
  const data = age === null ? "no data yet" : `${plural(values, by)}, updated ${span(age)} ago`;
  const consequence = { reject: "its pods are rejected", ignore: "the plugin is left out", gate: "pods are gated" }[whenStale];
  const note = [data, ...(fresh ? [] : [age === null ? consequence : `stale, ${consequence}`]), ...(error ? [error] : [])];
  return fact([`${plugin}, source ${source}`, note.join(" · ")]);
}

function pluginTable({ points, plugins }) {
  const used = POINTS.filter((point) => plugins.some(({ positions }) => point in positions));
  const timing = new Map(points.map((time) => [time.point, time]));
  const each = (time) => (time && time.calls ? duration(Math.round(time.total / time.calls)) : "");
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

function pluginRow({ name, distribution, weight, positions, times }, used, each) {
  const timed = new Map(times.map((time) => [time.point, time]));
  return h(
    "tr",
    {},
    h("th", { scope: "row", title: distribution }, name, distribution.startsWith("kframework-sdk") ? null : h("span", { class: "quiet" }, ` ${distribution}`)),
    h("td", { class: "number" }, weight === null ? "" : weight),
    ...used.map((point) =>
      point in positions
        ? h("td", { class: "at", title: `${positions[point]}. at ${point}` }, h("i", {}, positions[point]), each(timed.get(point)))
        : h("td"),
    ),
  );
}
