// The scheduler at a glance.

let now = 0; // the scheduler's time at the last answer

function showSummary(summary) {
  now = summary.now;
  write(byId("who"), summary.profiles.join(", "));
  const figures = [
    ["Nodes", number(summary.nodes)],
    ["Pods on nodes", number(summary.podsOnNodes)],
    ["Waiting", number(summary.waiting)],
    ["Attempts", number(summary.attempts)],
    ...(summary.durations || !summary.counted ? durationFigures(summary.durations) : []),
  ];
  keyed(
    byId("figures"),
    figures,
    ([name]) => name,
    ([name]) => h("div", {}, h("dt", {}, name), h("dd")),
    (figure, [, value]) => write(figure.lastChild, value),
  );
  showReload(summary.reload);
  showTimeline(summary);
}

// What became of the last change of the configuration file.
function showReload(reload) {
  const note = byId("reload");
  note.hidden = !reload;
  if (!reload) return;
  const { at, number, changes, problem } = reload;
  const refused = `${moment(at)}: the configuration file was refused, configuration ${number} goes on. ${problem}`;
  write(note, problem ? refused : `Configuration ${number} since ${moment(at)}: ${changes}`);
  note.classList.toggle("error", Boolean(problem));
}

// Only for an engine that times its attempts.
function durationFigures(times) {
  return [
    ["Median attempt", times ? duration(times.median) : "–"],
    ["99th percentile", times ? duration(times.slow) : "–"],
  ];
}

function showTimeline({ timeline, counted, now }) {
  const { start, width, counts } = timeline;
  const intervals = counts.scheduled.length;
  const total = (index) => counts.scheduled[index] + counts.unschedulable[index] + counts.error[index];
  const most = Math.max(1, ...Array.from({ length: intervals }, (_, index) => total(index)));
  const bars = [];
  for (let index = 0; index < intervals; index += 1) {
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
  set(picture, "viewBox", `0 0 ${intervals} 100`);
  picture.replaceChildren(...bars);
  const sum = (result) => counts[result].reduce((all, count) => all + count, 0);
  const parts = Object.keys(RESULTS).filter(sum).map((result) => `${number(sum(result))} ${result}`);
  const which = counted ? `Last ${plural(counted, "attempt")}: ${parts.join(", ")}` : "No attempts yet";
  const when = counted ? ` · ${moment(start)} – ${moment(now)} · ${span(width)} a bar` : "";
  write(byId("timeline-note"), which + when);
}
