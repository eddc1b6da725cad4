// The scheduler at a glance.

let now = 0; // the scheduler's time, as last heard

function showSummary(summary) {
  now = summary.now;
  write(byId("who"), summary.profiles.join(", "));
  const figures = [
    ["Nodes", number(summary.nodes)],
    ["Pods on nodes", number(summary.pods_on_nodes)],
    ["Waiting", number(summary.waiting)],
    ["Attempts", number(summary.attempts)],
    ...(summary.took || !summary.counted ? durations(summary.took) : []),
  ];
  keyed(
    byId("figures"),
    figures,
    ([name]) => name,
    ([name]) => h("div", {}, h("dt", {}, name), h("dd")),
    (figure, [, value]) => write(figure.lastChild, value),
  );
  showTimeline(summary);
}

// Not of an engine that does not time its attempts.
function durations(of) {
  return [
    ["Median attempt", of ? took(of.median) : "–"],
    ["99th percentile", of ? took(of.slow) : "–"],
  ];
}

function showTimeline({ timeline, counted, now }) {
  const { start, width, counts } = timeline;
  const stretches = counts.scheduled.length;
  const total = (index) => counts.scheduled[index] + counts.unschedulable[index] + counts.error[index];
  const most = Math.max(1, ...Array.from({ length: stretches }, (_, index) => total(index)));
  const bars = [];
  for (let index = 0; index < stretches; index += 1) {
    let top = 100;
    for (const result of ["scheduled", "unschedulable", "error"]) {
      const count = counts[result][index];
      if (!count) continue;
      const height = Math.max((100 * count) / most, 3);
      top -= height;
      bars.push(s("rect", { class: result, x: index + 0.1, width: 0.8, y: Math.max(top, 0), height }));
    }
  }
  const picture = byId("timeline");
  set(picture, "viewBox", `0 0 ${stretches} 100`);
  picture.replaceChildren(...bars);
  const sum = (result) => counts[result].reduce((all, count) => all + count, 0);
  const parts = Object.keys(RESULTS).filter(sum).map((result) => `${number(sum(result))} ${result}`);
  const which = counted ? `Last ${plural(counted, "attempt")}: ${parts.join(", ")}` : "No attempts yet";
  const when = counted ? ` · ${moment(start)} – ${moment(now)} · ${span(width)} a bar` : "";
  write(byId("timeline-said"), which + when);
}
