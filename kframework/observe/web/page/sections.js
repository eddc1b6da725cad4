// The engine's own tables; a cell is drawn by the kind of its column.

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

// Leave an unchanged section alone: a selection in it, the focus and the scroll position stay.
function fillSection(frame, section) {
  const text = JSON.stringify(section);
  if (frame.text === text) return;
  frame.text = text;
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
  const lastLine = [cut, note].filter(Boolean).join(" ");
  const head = columns.map(({ title, kind }) => h("th", { scope: "col", class: columnClass(kind) }, title));
  return [
    rows.length ? h("table", { class: "own" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map((row) => sectionRow(columns, row)))) : null,
    lastLine ? h("p", { class: "note" }, lastLine) : null,
  ].filter(Boolean);
}

function sectionRow(columns, { cells, tone }) {
  return h("tr", { "data-tone": tone || false }, cells.map((cell, index) => sectionCell(columns[index].kind, cell, index)));
}

function sectionCell(kind, cell, index) {
  const attributes = index ? { class: columnClass(kind) } : { scope: "row", class: columnClass(kind) };
  return h(index ? "td" : "th", attributes, cell === null ? "" : drawCell(kind, cell));
}

function columnClass(kind) {
  return { number: "number", moment: "number", duration: "number", share: "part", amounts: "parts", sentence: "prose" }[kind] ?? false;
}

function drawCell(kind, cell) {
  if (typeof cell === "object" && kind !== "amounts") return reference(cell);
  return { number, moment, duration, share: shareOf, amounts: amountsOf }[kind]?.(cell) ?? cell;
}

function reference({ kind, name, text }) {
  if (kind === "pod" && !text) return podLink(name);
  return h("a", { href: detailHash(kind, name), title: name }, text || name);
}

// A part of a whole that is 1; more than that fills the bar in another colour.
function shareOf(part) {
  return [bar(1, part), h("span", { class: "quiet" }, ` ${percent(part, 1)}`)];
}

function amountsOf(amounts) {
  const parts = Object.entries(amounts).map(([what, [takes, has]]) => [
    h("dt", {}, what),
    h("dd", {}, has ? [bar(has, takes), `${amount(what, takes)} of ${amount(what, has)}`] : amount(what, takes)),
  ]);
  return h("dl", { class: "amounts" }, parts.flat());
}
