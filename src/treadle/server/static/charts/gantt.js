// The chart of devices: time across, devices down, one rectangle for each spell. On a canvas,
// since there may be tens of thousands.
//
// columns: as spells.js makes them; colourOf(job place) -> colour; describe(index) -> what to say
// view: { from, to } and onView(from, to); whole: { from, to }, the most that can be shown; onReset()
// format(span) -> (value) -> text and zero (where round moments count from), for the axis of time

import { html, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.js";
import { MARGIN, lengthFormat, timeTicks } from "./axes.js";
import { eachBand } from "./spells.js";
import { cssColour, useTheme, useWidth } from "./theme.js";

const GUTTER = MARGIN.left; // The time axis lies under those of the curves.
const AXIS = 26;
const ROWS_HEIGHT = 480;
const ROW_HEIGHT = 14;
const NODE_LABEL_MIN = 13;

export function Gantt(props) {
  const { label, labelledby, columns, hint = "Point at a rectangle to see its job." } = props;
  const canvas = useRef();
  const frame = useRef();
  const [rows, setRows] = useState(null); // null: all of them
  const [over, setOver] = useState(-1);
  const theme = useTheme();
  const shown = rows ?? { from: 0, to: columns.rows };
  const live = useRef();
  live.current = { ...props, rows: shown, setRows, over, setOver, canvas };
  // All but what is pointed at, which changes often: 20,000 spells take too long for that.
  const picture = useRef();
  const draw = useRef(() => {
    const width = frame.current.clientWidth;
    picture.current = drawAll(live.current, width);
    show(live.current, canvas.current, picture.current, width);
  });
  useWidth(frame, draw);
  useLayoutEffect(() => setRows(null), [columns]);
  useLayoutEffect(() => {
    if (frame.current.clientWidth) draw.current();
  }, [columns, props.colourOf, props.view.from, props.view.to, rows, theme]);
  useLayoutEffect(() => {
    if (picture.current) show(live.current, canvas.current, picture.current, frame.current.clientWidth);
  }, [over]);
  useLayoutEffect(() => listen(canvas.current, live), []);
  return html`<div class="gantt-chart">
    <div class="gantt" ref=${frame}><canvas ref=${canvas} tabindex="0" role="img" aria-label=${label} aria-labelledby=${labelledby}></canvas></div>
    ${columns.rows * ROW_HEIGHT > ROWS_HEIGHT && html`<div class="choice rows" role="group" aria-label="Rows"><span class="choice-label">Rows</span>
      <button type="button" onClick=${() => stretchRows(live.current, 0.5, shown.from)}>taller</button>
      <button type="button" onClick=${() => stretchRows(live.current, 2, shown.from)}>shorter</button></div>`}
    <p class="readout" aria-live="polite">${over >= 0 && over < columns.from.length ? props.describe(over) : hint}</p>
    ${props.children}
    <p class="note">Wheel: zoom in time; with Shift: zoom in devices. Drag: move. Keys: + − ← → ↑ ↓,
      Page Up and Page Down for the spell before and after, 0 to reset.</p>
  </div>`;
}

/** Buttons for what the wheel and the keys do: a phone has neither. */
export function TimeControls({ view, whole, onView, onReset, children }) {
  const shift = (share) => () => onView(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
  const zoom = (factor) => () => onView(...zoomed(view, factor));
  const button = (text, label, act) => html`<button type="button" aria-label=${label} title=${label} onClick=${act}>${text}</button>`;
  const isAll = view.to - view.from >= (whole.to - whole.from) * (1 - 1e-9);
  return html`<div class="choice" role="group" aria-label="Time shown"><span class="choice-label">Time shown</span>
    ${button("←", "Earlier", shift(-0.5))}${button("→", "Later", shift(0.5))}
    ${button("+", "Zoom in", zoom(0.5))}${button("−", "Zoom out", zoom(2))}
    <button type="button" title="Reset to the initial time span" disabled=${isAll && !children} onClick=${onReset}>Reset</button>${children}</div>`;
}

/** A view that stays inside the whole, and is not too small to be seen. */
export function clamped(from, to, whole) {
  const span = whole.to - whole.from;
  const size = Math.min(Math.max(to - from, span / 1e5), span) || 1;
  const start = Math.min(Math.max(from, whole.from), Math.max(whole.to - size, whole.from));
  return { from: start, to: start + size };
}

function zoomed({ from, to }, factor, around = (from + to) / 2) {
  return [around - (around - from) * factor, around + (to - around) * factor];
}

// -- drawing --

function scaled(from, to, start, end) {
  const width = to - from || 1;
  const scale = (value) => start + ((value - from) / width) * (end - start);
  scale.invert = (pixel) => from + ((pixel - start) / (end - start)) * width;
  return scale;
}

function frameOf({ columns, rows, view }, width) {
  const height = Math.min(ROWS_HEIGHT, Math.max(columns.rows * ROW_HEIGHT, 60));
  const right = width - MARGIN.right;
  return {
    height, right, x: scaled(view.from, view.to, GUTTER, right), y: scaled(rows.from, rows.to, 0, height),
  };
}

function drawAll(chart, width) {
  const at = frameOf(chart, width);
  const canvas = document.createElement("canvas");
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round((at.height + AXIS) * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  pen.fillStyle = cssColour("--free");
  pen.fillRect(GUTTER, 0, at.right - GUTTER, at.height);
  pen.save();
  clip(at, pen);
  drawSpells(chart, at, pen, () => true);
  drawNodeLines(chart, at, pen);
  pen.restore();
  pen.fillStyle = cssColour("--quiet");
  drawNodeNames(chart, at, pen);
  drawTimes(chart, at, pen, width);
  return canvas;
}

function clip({ right, height }, pen) {
  pen.beginPath();
  pen.rect(GUTTER, 0, right - GUTTER, height);
  pen.clip();
}

// The picture; while a spell is pointed at, all but its job's are faint.
function show(chart, canvas, picture, width) {
  const at = frameOf(chart, width);
  if (canvas.width !== picture.width) canvas.width = picture.width;
  if (canvas.height !== picture.height) canvas.height = picture.height;
  Object.assign(canvas.style, { width: `${width}px`, height: `${at.height + AXIS}px` });
  const pen = canvas.getContext("2d");
  pen.resetTransform();
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(picture, 0, 0);
  const { columns, over } = chart;
  if (over < 0 || over >= columns.job.length) return;
  pen.save();
  pen.scale(picture.width / width, picture.width / width);
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  clip(at, pen);
  pen.globalAlpha = 0.65;
  pen.fillStyle = cssColour("--free");
  pen.fillRect(GUTTER, 0, at.right - GUTTER, at.height);
  pen.globalAlpha = 1;
  drawSpells(chart, at, pen, (index) => columns.job[index] === columns.job[over]);
  drawNodeLines(chart, at, pen);
  pen.restore();
}

function drawSpells({ columns, colourOf, nameOf }, { x, y, height, right }, pen, isDrawn) {
  const gap = y(1) - y(0) >= 6 ? 1 : 0;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  for (let index = 0; index < columns.from.length; index += 1) {
    if (!isDrawn(index)) continue;
    const [from, to] = [x(columns.from[index]), x(columns.to[index])];
    if (to < GUTTER || from > right) continue;
    const job = columns.job[index];
    const colour = colourOf(job);
    const wide = Math.max(to - from - (to - from > 4 ? 0.6 : 0), 0.5);
    eachBand(columns, index, (first, rows) => {
      const [top, bottom] = [y(first), y(first + rows)];
      if (bottom < 0 || top > height) return;
      pen.fillStyle = colour;
      pen.fillRect(from, top, wide, Math.max(bottom - top - gap, 0.7));
      if (nameOf && bottom - top >= 12) drawName(pen, nameOf(job), Math.max(from, GUTTER), Math.min(to, right), (top + bottom - gap) / 2);
    });
  }
}

// The name inside its rectangle, where there is room for all of it: colour is never alone.
function drawName(pen, name, from, to, middle) {
  if (to - from < 18 || pen.measureText(name).width > to - from - 8) return;
  pen.fillStyle = inkOn(pen.fillStyle);
  pen.fillText(name, from + 4, middle + 0.5);
}

// Black or white, whichever is easier to read; the canvas has the colour as #rrggbb by now.
function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  return 0.2126 * red ** 2.2 + 0.7152 * green ** 2.2 + 0.0722 * blue ** 2.2 > 0.2 ? "#000000" : "#ffffff";
}

function drawNodeLines({ columns }, { y, right }, pen) {
  pen.fillStyle = cssColour("--card");
  let row = 0;
  for (const [, wide] of columns.nodes) {
    if (row && y(row + wide) - y(row) >= 5) pen.fillRect(GUTTER, y(row) - 1, right - GUTTER, 2);
    row += wide;
  }
}

function drawNodeNames({ columns }, { y, height }, pen) {
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  let [row, free] = [0, 0];
  for (const [name, wide] of columns.nodes) {
    const [top, bottom] = [Math.max(y(row), 0), Math.min(y(row + wide), height)];
    const at = (top + bottom) / 2;
    if (bottom > top && at - NODE_LABEL_MIN / 2 >= free - 1) {
      pen.fillText(fitted(pen, name, GUTTER - 10), GUTTER - 8, Math.max(at, 7));
      free = at + NODE_LABEL_MIN / 2;
    }
    row += wide;
  }
}

function fitted(pen, text, room) {
  let shown = text.slice(0, 40);
  while (shown.length > 1 && pen.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`;
  return shown;
}

function drawTimes({ view, format = lengthFormat, zero = 0 }, { x, height }, pen, width) {
  const say = format(view.to - view.from);
  pen.textBaseline = "top";
  pen.textAlign = "center";
  for (const tick of timeTicks(view.from, view.to, Math.max(2, Math.floor((width - GUTTER - MARGIN.right) / 72)), zero)) {
    const [text, at] = [say(tick), x(tick)];
    const half = pen.measureText(text).width / 2;
    pen.fillRect(at, height, 1, 5);
    if (at + half <= width && at - half >= 0) pen.fillText(text, at, height + 9);
  }
}

// -- pointer and keys --

// Not by Preact: a wheel that scrolls the page only when all is shown has to be active.
function listen(canvas, live) {
  const at = () => frameOf(live.current, canvas.clientWidth);
  let drag = null;
  const ends = () => { drag = null; };
  const handlers = {
    wheel: (event) => wheel(live.current, at(), event),
    keydown: (event) => key(live.current, event),
    dblclick: () => live.current.onReset(),
    pointerdown: (event) => {
      if (event.pointerType === "touch") return; // A finger scrolls the page; buttons zoom.
      canvas.setPointerCapture(event.pointerId);
      drag = { event, ...at(), view: live.current.view, rows: live.current.rows };
    },
    pointermove: (event) => {
      if (drag) dragged(live.current, drag, event);
      else point(live.current, hit(live.current, at(), event.offsetX, event.offsetY));
    },
    pointerup: ends,
    pointercancel: ends,
    pointerleave: () => point(live.current, -1),
  };
  for (const [name, handle] of Object.entries(handlers)) canvas.addEventListener(name, handle, { passive: false });
  return () => {
    for (const [name, handle] of Object.entries(handlers)) canvas.removeEventListener(name, handle);
  };
}

function point(chart, index) {
  if (index !== chart.over) chart.setOver(index);
}

function wheel(chart, at, event) {
  const { view, whole } = chart;
  // All is shown already: let the page scroll on.
  if (event.deltaY > 0 && !event.shiftKey && view.to - view.from >= whole.to - whole.from) return;
  event.preventDefault();
  const factor = Math.exp(Math.max(-1, Math.min(1, (event.deltaY || event.deltaX) / 300)));
  if (event.shiftKey) stretchRows(chart, factor, at.y.invert(event.offsetY));
  else chart.onView(...zoomed(view, factor, at.x.invert(Math.max(event.offsetX, GUTTER))));
}

function stretchRows(chart, factor, around) {
  const { from, to } = chart.rows;
  const size = Math.min(Math.max((to - from) * factor, Math.min(4, chart.columns.rows)), chart.columns.rows);
  moveRows(chart, around - ((around - from) / (to - from)) * size, size);
}

function moveRows(chart, from, size) {
  const start = Math.min(Math.max(from, 0), chart.columns.rows - size);
  chart.setRows({ from: start, to: start + size });
}

function dragged(chart, { event: first, x, height, view, rows }, event) {
  const past = x.invert(first.offsetX) - x.invert(event.offsetX);
  chart.onView(view.from + past, view.to + past);
  const size = rows.to - rows.from;
  const lines = ((first.offsetY - event.offsetY) / height) * size;
  if (size < chart.columns.rows) moveRows(chart, rows.from + lines, size);
}

function hit({ columns }, { x, y, height, right }, across, down) {
  if (across < GUTTER || across > right || down > height) return -1;
  const [at, row] = [x.invert(across), y.invert(down)];
  const slack = x.invert(1) - x.invert(0); // One pixel: short spells can be pointed at.
  let found = -1;
  for (let index = 0; index < columns.from.length && columns.from[index] <= at + slack; index += 1) {
    if (columns.to[index] < at - slack) continue;
    eachBand(columns, index, (first, rows) => {
      if (row >= first && row < first + rows) found = index;
    });
  }
  return found;
}

function key(chart, event) {
  const { view, rows, columns } = chart;
  const [step, size] = [(view.to - view.from) / 8, rows.to - rows.from];
  const zoom = (factor) => () => chart.onView(...zoomed(view, factor));
  const keys = {
    "+": zoom(0.7), "=": zoom(0.7), "-": zoom(1.4),
    0: () => { chart.setRows(null); chart.onReset(); },
    ArrowLeft: () => chart.onView(view.from - step, view.to - step),
    ArrowRight: () => chart.onView(view.from + step, view.to + step),
    ArrowUp: () => moveRows(chart, rows.from - size / 8, size),
    ArrowDown: () => moveRows(chart, rows.from + size / 8, size),
    PageDown: () => point(chart, nextSpell(columns, view, chart.over, 1)),
    PageUp: () => point(chart, nextSpell(columns, view, chart.over, -1)),
    Escape: () => point(chart, -1),
  };
  if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  keys[event.key]();
}

// The next one in the view by when it began; where there is none, the present one stays.
function nextSpell({ from, to }, view, over, step) {
  let index = over < 0 && step < 0 ? from.length : over;
  do index += step;
  while (index >= 0 && index < from.length && (to[index] < view.from || from[index] > view.to));
  return index >= 0 && index < from.length ? index : over;
}
