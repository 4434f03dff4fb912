// Lines over time or over a number, drawn by uPlot: a legend that reads values out and switches
// series on and off, the cursor by pointer and arrow keys, zoom by dragging, and the values as a
// table for those who do not see the picture.
//
// series: [{ name, colour, xs, ys, dash: [7, 3], step: true, peaks (a light band up to them),
//   bars: true, text(x) (what to say at x; else the value in y's format), rest (what to say without
//   a cursor) }], with `xs` in ascending order
// x: { from, to, title, format(span) -> (value) -> text, ticks(from, to, most) (else those of a
//   length of time; null: round numbers), log: true, marker (a vertical line) }
// y: { format(value), max (at least), exactly (the top), title }
// at(x): what the cursor is at; restTitle: the words before the legend without a cursor
// hidden: a Set of places, onToggle(place); onZoom(from, to), onReset()

import { html, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-htm.js";
import { MARGIN, lengthFormat, timeTicks } from "./axes.js";
import { cssColour, useTheme, useWidth } from "./theme.js";

const HEIGHT = 280;
const ROWS_MAX = 60; // of the table
const NONE = new Set();

export function LineChart(props) {
  const { label, series, height = HEIGHT, hidden = NONE } = props;
  const frame = useRef();
  const live = useRef(props);
  const plot = useRef();
  const theme = useTheme();
  const [at, setAt] = useState(null);
  const [said, setSaid] = useState("");
  live.current = { ...props, hidden, height, setAt };
  const shape = series.map(({ name, colour, step, dash, peaks, bars, xs }, index) =>
    [name, colour, step, dash, Boolean(peaks), bars, xs.length === 1, hidden.has(index)]);
  const { x } = props;
  const kind = JSON.stringify([shape, Boolean(x.log), x.ticks === null, x.title, height, Boolean(props.onZoom)]);

  useLayoutEffect(() => {
    plot.current = built(live, frame.current);
    return () => plot.current.destroy();
  }, [theme, kind]);
  const data = useMemo(() => aligned(series), [series]);
  useLayoutEffect(() => plot.current.setData(data), [data, x.from, x.to, theme, kind]);
  const draw = useRef((width) => plot.current.setSize({ width, height: live.current.height }));
  useWidth(frame, draw);

  const values = series.map((each) => (at === null ? each.rest ?? "" : textAt(each, at, props.y)));
  const title = at === null ? props.restTitle ?? "" : atText(props, at);
  const onKeyDown = (event) => {
    const moved = keyMoved(plot.current, event);
    if (moved === null) return;
    const there = series.map((each) => `${each.name} ${textAt(each, moved, props.y)}`);
    setSaid(`${atText(props, moved)}: ${there.filter((_, index) => !hidden.has(index)).join(", ")}`);
  };
  return html`<div class="line-chart">
    <${Legend} title=${title} series=${series} values=${values} hidden=${hidden} onToggle=${props.onToggle} />
    <div ref=${frame} class="chart ${props.onZoom ? "zooms" : ""}" tabindex="0" role="img" aria-label=${label}
      onKeyDown=${onKeyDown} onBlur=${() => point(plot.current, null)}></div>
    <div class="hidden-text" role="status">${said}</div>
    <${DataTable} label=${label} series=${series} hidden=${hidden} x=${x} y=${props.y} at=${props.at} />
  </div>`;
}

// -- the plot --

function built(live, frame) {
  const { x, height, onZoom } = live.current;
  const axis = {
    stroke: () => cssColour("--quiet"),
    font: "12px system-ui, sans-serif",
    labelFont: "12px system-ui, sans-serif",
  };
  const options = {
    width: frame.clientWidth || 600,
    height,
    pxAlign: 0,
    padding: [10, MARGIN.right, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false, distr: x.log ? 3 : 1, range: () => [live.current.x.from, live.current.x.to] },
      y: { range: (_, low, high) => yRange(live.current.y, low, high) },
    },
    series: [{}, ...live.current.series.flatMap((each, index) => styled(each, live.current.hidden.has(index)))],
    bands: bandsOf(live.current.series),
    axes: [
      {
        ...axis, grid: { show: false }, size: x.title ? 26 : 34, label: x.title, labelSize: 18, labelGap: 0,
        ticks: { stroke: () => cssColour("--line"), size: 5, width: 1 },
        splits: x.ticks === null ? undefined : (u, _, from, to) => (live.current.x.ticks ?? timeTicks)(from, to, Math.max(2, Math.floor(u.width / 84))),
        values: (_, splits) => splits.map((live.current.x.format ?? lengthFormat)(live.current.x.to - live.current.x.from)),
        filter: (_, splits) => splits,
      },
      {
        ...axis, size: MARGIN.left, ticks: { show: false }, space: 42,
        grid: { stroke: () => cssColour("--grid"), width: 1 },
        values: (_, splits) => splits.map((each) => live.current.y.format(each)),
      },
    ],
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: Boolean(onZoom), y: false, setScale: false },
      bind: { dblclick: () => () => live.current.onReset?.() },
    },
    hooks: {
      setCursor: [({ cursor, posToVal }) => {
        live.current.setAt(cursor.left >= 0 ? posToVal(cursor.left, "x") : null);
      }],
      setSelect: [(u) => {
        const { left, width } = u.select;
        if (width > 5) live.current.onZoom(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
      draw: [(u) => drawMarker(u, live.current.x.marker)],
    },
  };
  return new uPlot(options, aligned(live.current.series), frame);
}

function yRange({ max = 0, exactly }, low, high) {
  const top = exactly ?? Math.max(max, (high ?? 0) * 1.05);
  return [Math.min(low ?? 0, 0), top > 0 ? top : 1];
}

// One or two series of uPlot for each of ours: peaks have a thin line of their own.
function styled({ colour, dash, step, peaks, bars, xs }, isHidden) {
  const paths = bars ? uPlot.paths.bars({ size: [0.7, 56], radius: 0.1 })
    : step ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
  const line = {
    show: !isHidden, stroke: () => shown(colour), width: bars ? 0 : 2, dash, paths,
    fill: bars ? () => shown(colour) : undefined,
    // A single value makes no line: its point is all there is to see.
    points: bars || (step && xs.length > 1) ? { show: false } : { size: xs.length > 1 ? 5 : 8, fill: () => shown(colour) },
  };
  return peaks ? [line, { ...line, width: 0.7, dash: undefined, alpha: 0.8 }] : [line];
}

// A colour may be given by the name of its variable.
function shown(colour) {
  return colour.startsWith("--") ? cssColour(colour) : colour;
}

function bandsOf(series) {
  let place = 0;
  return series.flatMap(({ peaks, colour }) => {
    place += peaks ? 2 : 1;
    return peaks
      ? [{ series: [place, place - 1], fill: () => `color-mix(in srgb, ${shown(colour)} 18%, transparent)` }] : [];
  });
}

function aligned(series) {
  if (!series.length) return [[]];
  return uPlot.join(series.map(({ xs, ys, peaks }) => (peaks ? [xs, ys, peaks] : [xs, ys])));
}

function drawMarker(u, value) {
  if (value === undefined || value < u.scales.x.min || value > u.scales.x.max) return;
  const across = u.valToPos(value, "x", true);
  const { ctx: pen, bbox } = u;
  pen.save();
  pen.strokeStyle = cssColour("--text");
  pen.globalAlpha = 0.6;
  pen.lineWidth = devicePixelRatio;
  pen.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
  pen.beginPath();
  pen.moveTo(across, bbox.top);
  pen.lineTo(across, bbox.top + bbox.height);
  pen.stroke();
  pen.restore();
}

// -- values --

/** The place of the last value that is not above a limit; -1 if there is none. */
export function lastUpTo(xs, limit) {
  let [low, high] = [0, xs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function textAt(series, x, y) {
  if (series.text) return series.text(x);
  const { xs, ys, step } = series;
  let place = lastUpTo(xs, x);
  // Between two points the nearer one is meant, unless a value holds until the next.
  if (!step && place + 1 < xs.length && (place < 0 || xs[place + 1] - x < x - xs[place])) place += 1;
  const value = ys[place];
  return value === null || value === undefined ? "–" : y.format(value);
}

function atText({ at, x }, value) {
  return at ? at(value) : (x.format ?? lengthFormat)(x.to - x.from)(value);
}

// The value of x that an arrow key, Home or End moved the cursor to; null for other keys.
function keyMoved(u, event) {
  const step = (event.shiftKey ? 40 : 8) * ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0);
  const end = { Home: 0, End: u.over.clientWidth, Escape: -10 }[event.key];
  if (!step && end === undefined) return null;
  event.preventDefault();
  const before = u.cursor.left >= 0 ? u.cursor.left : u.over.clientWidth / 2;
  const left = end ?? Math.min(Math.max(before + step, 0), u.over.clientWidth);
  point(u, left);
  return left < 0 ? null : u.posToVal(left, "x");
}

function point(u, left) {
  u.setCursor({ left: left ?? -10, top: left === null ? -10 : u.over.clientHeight / 2 });
}

// -- legend and table --

export function Swatch({ colour, dash, block }) {
  const style = { stroke: colour.startsWith("--") ? `var(${colour})` : colour };
  if (block) return html`<i class="block" style=${{ background: style.stroke }} aria-hidden="true"></i>`;
  return html`<svg class="line-swatch" width="22" height="10" aria-hidden="true">
    <line x1="0" y1="5" x2="22" y2="5" stroke-width="3" stroke-dasharray=${dash?.join(" ")} style=${style} />
  </svg>`;
}

function Legend({ title, series, values, hidden, onToggle }) {
  const inner = (each, index) => html`<${Swatch} colour=${each.colour} dash=${each.dash} block=${each.bars} />
    <span class="legend-name">${broken(each.name)}</span><span class="legend-value">${values[index]}</span>`;
  return html`<div class="legend" role="group" aria-label="Shown">
    ${title && html`<span class="legend-title">${title}</span>`}
    ${series.map((each, index) => (onToggle
      ? html`<button type="button" key=${index} title="Show or hide ${each.name}" aria-pressed=${String(!hidden.has(index))}
          onClick=${() => onToggle(index)}>${inner(each, index)}</button>`
      : html`<span class="legend-item" key=${index}>${inner(each, index)}</span>`))}
  </div>`;
}

/** A long name that may be broken between its parameters. */
export function broken(name) {
  return name.split(/(?<=[?&,+])/).flatMap((part) => [html`<wbr />`, part]).slice(1);
}

// Drawn when it is opened.
function DataTable({ label, series, hidden, x, y, at }) {
  const [isOpen, setIsOpen] = useState(false);
  const shownSeries = series.filter((_, index) => !hidden.has(index));
  const rows = isOpen ? sampledRows(shownSeries, x) : [];
  return html`<details class="chart-data" onToggle=${(event) => setIsOpen(event.currentTarget.open)}>
    <summary>Values as a table</summary>
    ${isOpen && html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="numbers">
      <caption class="hidden-text">${label}</caption>
      <thead><tr><th scope="col">${x.title ?? ""}</th>${shownSeries.map((each) => html`<th scope="col">${each.name}</th>`)}</tr></thead>
      <tbody>${rows.map((value) => html`<tr><th scope="row">${atText({ at, x }, value)}</th>
        ${shownSeries.map((each) => html`<td>${textAt(each, value, y)}</td>`)}</tr>`)}</tbody>
    </table></div>`}
  </details>`;
}

function sampledRows(series, { from, to }) {
  const all = [...new Set(series.flatMap(({ xs }) => Array.from(xs)))].filter((each) => each >= from && each <= to);
  all.sort((one, other) => one - other);
  if (all.length <= ROWS_MAX) return all;
  return Array.from({ length: ROWS_MAX }, (_, index) => all[Math.round((index * (all.length - 1)) / (ROWS_MAX - 1))]);
}
