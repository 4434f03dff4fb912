// Data, state, elements and number formats that every part of the page uses.

export const data = JSON.parse(document.getElementById("data").textContent);
export const runs = data.runs;

// What the reader chose. Parts listen and redraw, at most once a frame.
export const state = {
  baseline: 0,
  hidden: new Set(),
  window: { from: 0, to: Math.max(data.focus.length_s, 1e-9) },
};
const listeners = [];
let isDrawDue = false;

export function onChange(draw) {
  listeners.push(draw);
}

export function changed() {
  if (isDrawDue) return;
  isDrawDue = true;
  // A timer and not an animation frame: hidden tabs and headless browsers have no frames.
  setTimeout(() => {
    isDrawDue = false;
    for (const draw of listeners) draw();
  }, 12);
}

// -- elements: text only ever becomes a text node, so nothing from a trace is read as markup ------

export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(node.style, value);
    else if (value !== null && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

// A long name that may be broken between its parameters.
export function broken(name) {
  return name.split(/(?<=[?&,])/).flatMap((part) => [element("wbr"), part]).slice(1);
}

export function place(id) {
  return document.getElementById(id);
}

// A row of buttons of which one is chosen.
export function choice(label, options, chosen, choose) {
  const group = element("div", { class: "choice", role: "group", "aria-label": label });
  const buttons = options.map(([value, text]) =>
    element("button", { type: "button", onclick: () => pick(value) }, text));
  function pick(value) {
    mark(value);
    choose(value);
  }
  function mark(value) {
    options.forEach(([other], index) =>
      buttons[index].setAttribute("aria-pressed", String(other === value)));
  }
  mark(chosen);
  group.append(element("span", { class: "choice-label" }, label), ...buttons);
  return group;
}

// -- formats ------------------------------------------------------------------------------------

export const MISSING = "–";

function digits(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return value.toPrecision(3);
  if (size >= 99.95) return Math.round(value).toLocaleString("en");
  return value.toFixed(size >= 9.995 ? 1 : 2);
}

// Name, length, and the length from which the next unit reads better.
const UNITS = [["s", 1, 120], ["min", 60, 7200], ["h", 3600, 172800], ["d", 86400, Infinity]];

function unitOf(seconds) {
  return UNITS.find(([, , until]) => Math.abs(seconds) < until) ?? UNITS.at(-1);
}

export function duration(seconds) {
  return durationIn(unitOf(seconds ?? 0))(seconds);
}

function durationIn([name, length]) {
  return (seconds) => (seconds === null || seconds === undefined
    ? MISSING : `${digits(seconds / length)} ${name}`);
}

// One unit for values that are close enough to be compared at a glance.
export function durationFor(values) {
  const known = values.filter(Boolean);
  const unit = unitOf(Math.min(...known));
  return known.length && Math.max(...known) < 1000 * unit[1] ? durationIn(unit) : duration;
}

// One number of all runs: the same unit in tables, tiles and legends.
export function durationOf(key) {
  return durationFor(runs.map((run) => run.summary[key]));
}

// The format of a column of the tables.
export function formatOf(column) {
  return column.format === duration ? durationOf(column.key) : column.format;
}

export function percent(share) {
  return share === null || share === undefined ? MISSING : `${(100 * share).toFixed(1)} %`;
}

export function count(value) {
  if (value === null || value === undefined) return MISSING;
  return Math.abs(value) >= 1e12 ? value.toPrecision(3) : Math.round(value).toLocaleString("en");
}

export function decimal(value) {
  return value === null || value === undefined ? MISSING : digits(value);
}

export function plural(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

// -- colours ------------------------------------------------------------------------------------

export const BUCKET_COLOURS = ["#56b4e9", "#009e73", "#e69f00", "#d55e00"];
export const TENANT_COLOURS = runs.length
  ? ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#aa4499", "#7f7f7f"]
  : [];

// Runs differ by dashes too, for readers and printers without colours.
export function dashes(index) {
  return [undefined, undefined, [7, 3], [2, 3], [10, 3, 2, 3]][index % 5];
}

export function swatch(index) {
  const line = { x1: 0, y1: 5, x2: 22, y2: 5, stroke: runs[index].colour, "stroke-width": 3 };
  return drawn("svg", { class: "line-swatch", width: 22, height: 10, "aria-hidden": "true" },
    drawn("line", { ...line, "stroke-dasharray": dashes(index)?.join(" ") ?? null }));
}

