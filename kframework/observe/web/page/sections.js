// The tables of an engine's own: what stands in them is drawn by its kind, without knowing what it is about.

async function refreshSections() {
  const sections = await source.ask("sections", {});
  keyed(byId("sections"), sections, ({ name }) => name, sectionFrame, fillSection);
  keyed(byId("own"), sections, ({ name }) => name, () => h("a", {}), fillSectionLink);
}

function sectionFrame({ name, title }) {
  return h(
    "section",
    { id: `section-${name}`, "aria-labelledby": `section-${name}-title`, tabindex: "-1" },
    h("h2", { id: `section-${name}-title` }, title),
    h("div", { class: "scroll", role: "region", "aria-label": title, tabindex: "0" }),
  );
}

// What has not changed stays as it is: a selection in it, the focus and the place it is scrolled to.
function fillSection(frame, section) {
  const said = JSON.stringify(section);
  if (frame.said === said) return;
  frame.said = said;
  const at = frame.contains(document.activeElement) ? document.activeElement.hash : "";
  frame.lastChild.replaceChildren(...sectionTable(section));
  if (at) [...frame.querySelectorAll("a")].find((link) => link.hash === at)?.focus();
}

function fillSectionLink(link, { name, title }) {
  set(link, "href", `#section-${name}`);
  write(link, title);
}

function sectionTable({ columns, rows, total, note }) {
  const cut = total > rows.length ? `The first ${number(rows.length)} of ${number(total)}.` : rows.length ? "" : "None.";
  const said = [cut, note].filter(Boolean).join(" ");
  const head = columns.map(({ title, kind }) => h("th", { scope: "col", class: columnClass(kind) }, title));
  return [
    rows.length ? h("table", { class: "own" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map((row) => ownRow(columns, row)))) : null,
    said ? h("p", { class: "note" }, said) : null,
  ].filter(Boolean);
}

function ownRow(columns, { cells, tone }) {
  return h("tr", { "data-tone": tone || false }, cells.map((cell, index) => ownCell(columns[index].kind, cell, index)));
}

function ownCell(kind, cell, index) {
  const attributes = index ? { class: columnClass(kind) } : { scope: "row", class: columnClass(kind) };
  return h(index ? "td" : "th", attributes, cell === null ? "" : drawn(kind, cell));
}

function columnClass(kind) {
  return { number: "number", moment: "number", took: "number", share: "part", fills: "parts", said: "said" }[kind] ?? false;
}

function drawn(kind, cell) {
  if (typeof cell === "object" && kind !== "fills") return referred(cell);
  return { number, moment, took, share: shareOf, fills: fillsOf }[kind]?.(cell) ?? cell;
}

function referred({ to, name, text }) {
  if (to === "pod" && !text) return podLink(name);
  return h("a", { href: detailHash(to, name), title: name }, text || name);
}

// A part of a whole that is 1; what is beyond it fills the bar in another colour.
function shareOf(part) {
  return [bar(1, part), h("span", { class: "quiet" }, ` ${percent(part, 1)}`)];
}

function fillsOf(fills) {
  const parts = Object.entries(fills).map(([what, [takes, has]]) => [
    h("dt", {}, what),
    h("dd", {}, has ? [bar(has, takes), `${amount(what, takes)} of ${amount(what, has)}`] : amount(what, takes)),
  ]);
  return h("dl", { class: "amounts" }, parts.flat());
}
