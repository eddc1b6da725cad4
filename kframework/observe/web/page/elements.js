// Creates all elements. Text is inserted as text, never as markup, with hidden characters escaped.

const SVG = "http://www.w3.org/2000/svg";

function byId(id) {
  return document.getElementById(id);
}

// Characters that are invisible or change the writing direction; escaped as on the command line: \u202e, \n.
const HIDDEN = /(?! )[\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/gu;

const ESCAPES = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function visible(text) {
  return String(text).replace(HIDDEN, (character) => ESCAPES[character] ?? escaped(character.codePointAt(0)));
}

function escaped(code) {
  const digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
  return `\\${{ 2: "x", 4: "u", 8: "U" }[digits]}${code.toString(16).padStart(digits, "0")}`;
}

// Escape hidden characters in each line.
function visibleLines(text) {
  return String(text).split("\n").map(visible).join("\n");
}

// Make an element: h("a", {class: "pod", href: "#x", onclick: f}, "text", other).
function h(tag, attributes, ...children) {
  return addContent(document.createElement(tag), attributes, children);
}

function s(tag, attributes, ...children) {
  return addContent(document.createElementNS(SVG, tag), attributes, children);
}

function addContent(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else set(element, name, value);
  }
  const present = children.flat().filter((child) => child !== null && child !== undefined && child !== "");
  element.append(...present.map((child) => (child instanceof Node ? child : visible(child))));
  return element;
}

// Set an attribute, or remove it if the value is false, null or undefined.
function set(element, name, value) {
  if (value === false || value === null || value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== visibleLines(value)) element.setAttribute(name, value === true ? "" : visibleLines(value));
}

// Write a text unless it is unchanged, so that a selection in it stays.
function write(element, text) {
  if (element.textContent !== visible(text)) element.textContent = visible(text);
}

// Let the children of an element be one per item, in this order. A child stays the same element as long as its key is
// among the items, so that focus and selection stay; `fill` brings it up to date.
function keyed(parent, items, key, make, fill) {
  const keys = new Set(items.map((item) => String(key(item))));
  const had = new Map(Array.from(parent.children, (child) => [child.dataset.key, child]));
  for (const [name, child] of had) if (!keys.has(name)) child.remove();
  let next = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    const child = had.get(name) ?? make(item);
    child.dataset.key = name;
    fill(child, item);
    if (child === next) next = next.nextElementSibling;
    else if (child.isConnected && parent.moveBefore) parent.moveBefore(child, next); // which keeps the focus
    else parent.insertBefore(child, next);
  }
}

// Show buttons, one of them pressed; `list` has [value, label, count].
function choices(group, list, chosen, choose) {
  group.choose = choose; // the buttons stay, but their action may change
  keyed(
    group,
    list,
    ([value]) => value,
    ([value]) => h("button", { type: "button", onclick: () => group.choose(value) }, h("span"), h("b")),
    (button, [value, label, count]) => {
      write(button.children[0], label);
      write(button.children[1], count === null ? "" : number(count));
      set(button, "aria-pressed", value === chosen ? "true" : "false");
      set(button, "data-value", value);
    },
  );
}

// A link to a pod, its namespace in the background.
function podLink(pod) {
  const [namespace, name] = pod.split("/", 2);
  return h("a", { class: "pod", href: podHash(pod), title: pod }, h("span", { class: "quiet" }, `${namespace}/`), name);
}

function detailHash(sort, name) {
  return `#${encodeURIComponent(sort)}/${encodeURIComponent(name)}`;
}

function podHash(pod) {
  return detailHash("pod", pod);
}

function nodeHash(node) {
  return detailHash("node", node);
}

function nodeLink(node) {
  return h("a", { class: "node", href: nodeHash(node) }, node);
}
