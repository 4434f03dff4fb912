// Curves of all runs in one frame: distributions, and values over time.

import { timeTicks } from "../charts/axes.js";
import { LineChart, lastUpTo } from "../charts/line.js";
import { html, render } from "../vendor/preact-htm.js";
import {
  changed, choice, count, dashes, data, decimal, duration, element, onChange, percent, place, runs, state,
} from "./base.js";
import { resetWindow, setWindow } from "./window.js";

function toggle(index) {
  if (!state.hidden.delete(index)) state.hidden.add(index);
  changed();
}

// Draws a chart now and after each change of what the reader chose.
function drawn(host, options) {
  const draw = () => render(html`<${LineChart} ...${options()} hidden=${new Set(state.hidden)} onToggle=${toggle} />`, host);
  onChange(draw);
  draw();
  return draw;
}

// -- distributions ------------------------------------------------------------------------------

export function distribution(id, { key, xTitle, label, marker, ticks, logMarks, format, rest }) {
  const lines = runs.map((run) => stairs(run[key]));
  const all = lines.flatMap((line) => line.xs);
  if (!all.length) {
    place(id).append(element("p", { class: "note" }, "No job finished."));
    return;
  }
  const most = all.reduce((one, other) => Math.max(one, other));
  const positive = all.filter((value) => value > 0);
  const least = positive.length ? positive.reduce((one, other) => Math.min(one, other)) : 1;
  const axes = {
    log: { from: least * 0.9, to: Math.max(most, least * 2), log: true, ticks: logMarks, format: () => format.log },
    linear: { from: 0, to: most || 1, ticks, format: format.linear },
  };
  const shown = { log: withEnds(lines, axes.log, rest), linear: withEnds(lines, axes.linear, rest) };
  let scale = "log";
  const [controls, host] = [element("div", { class: "controls" }), element("div")];
  place(id).append(controls, host);
  const draw = drawn(host, () => ({
    label, series: shown[scale], restTitle: rest.title, at: (x) => `Within ${format.cursor(x)}`,
    x: { ...axes[scale], title: xTitle, marker },
    y: { exactly: 1, format: (share) => `${Math.round(100 * share)} %` },
  }));
  controls.append(choice("Scale", [["log", "log"], ["linear", "linear"]], scale, (chosen) => {
    scale = chosen;
    draw();
  }));
}

// The share of values up to each, once for values that are equal.
function stairs({ count: total, values }) {
  const last = Math.max(values.length - 1, 1);
  const ranks = values.map((_, index) => (Math.floor((index * (total - 1)) / last) + 1) / total);
  const kept = values.map((_, index) => index).filter((index) => values[index] !== values[index + 1]);
  return { xs: kept.map((index) => values[index]), ys: kept.map((index) => ranks[index]) };
}

// From nothing at the left end of the axis to its right end.
function withEnds(lines, { from, to }, rest) {
  return runs.map((run, index) => {
    const { xs, ys } = lines[index];
    const inside = xs.map((_, at) => at).filter((at) => xs[at] > from && xs[at] < to);
    const empty = !xs.length;
    return {
      name: run.policy, colour: run.colour, dash: dashes(index), step: true, rest: rest.text(run),
      xs: empty ? [] : [from, ...inside.map((at) => xs[at]), to],
      ys: empty ? [] : [ys[lastUpTo(xs, from)] ?? 0, ...inside.map((at) => ys[at]), ys[lastUpTo(xs, to)] ?? 0],
      text: (x) => percent(ys[lastUpTo(xs, x)] ?? 0),
    };
  });
}

// -- over time ----------------------------------------------------------------------------------

// Where each bin begins: short bins up to what is shown first, long ones after it.
const BINS = data.pieces.flatMap(([from, step, bins]) =>
  Array.from({ length: bins }, (_, index) => from + index * step));

export function timeline(id, { key, peaks, label, limit, rest }) {
  const lines = runs.map((run) => {
    const used = run[key].length;
    return { xs: BINS.slice(0, used), ys: run[key], peaks: peaks && run[peaks], end: used ? BINS[used] ?? data.span_s : 0 };
  });
  const valueAt = (line, values, x) => (x <= line.end ? values[lastUpTo(line.xs, x)] ?? 0 : 0);
  const text = (line) => (x) => decimal(valueAt(line, line.ys, x))
    + (peaks ? `, max ${count(valueAt(line, line.peaks, x))}` : "");
  const host = place(id);
  drawn(host, () => ({
    label, restTitle: rest.title, at: (x) => `At ${duration(x)}`, onZoom: setWindow, onReset: resetWindow,
    series: runs.map((run, index) => ({
      name: run.policy, colour: run.colour, step: true, text: text(lines[index]), rest: rest.text(run),
      ...averaged(lines[index], state.window, Math.max(host.clientWidth, 300) / 3),
    })),
    x: { ...state.window, ticks: timeTicks, title: "time since the first submission" },
    y: { max: limit ?? 1, format: (value) => value.toLocaleString("en") },
  }));
}

// Averages neighbouring values, which fluctuate, so that a curve has a limited number of points.
function averaged(line, { from, to }, most) {
  const [first, last] = [Math.max(lastUpTo(line.xs, from), 0), Math.min(lastUpTo(line.xs, to) + 1, line.xs.length - 1)];
  const every = Math.max(1, Math.ceil((last - first + 1) / most));
  const [xs, ys, peaks] = [[], [], []];
  for (let at = first - (first % every); at <= last; at += every) {
    let [sum, length, peak] = [0, 0, 0];
    for (let index = at; index < Math.min(at + every, line.xs.length); index += 1) {
      const lasts = (line.xs[index + 1] ?? line.end) - line.xs[index];
      sum += line.ys[index] * lasts;
      length += lasts;
      if (line.peaks) peak = Math.max(peak, line.peaks[index]);
    }
    xs.push(line.xs[at]);
    ys.push(length ? sum / length : 0);
    peaks.push(peak);
  }
  // The last value holds until the end.
  if (xs.length && last === line.xs.length - 1 && line.end > xs.at(-1)) {
    xs.push(line.end);
    ys.push(ys.at(-1));
    peaks.push(peaks.at(-1));
  }
  return { xs, ys, peaks: line.peaks ? peaks : undefined };
}

// Devices in use, or the progress they made, in one chart.
export function deviceCharts(host) {
  const isKnown = runs.some((run) => run.summary.efficiency !== null);
  const choose = (id) => {
    for (const other of ["busy", "useful"]) place(other).hidden = other !== id;
  };
  timeline("busy", {
    key: "busy", label: "Devices in use over time", limit: data.devices * 1.03,
    rest: { title: "On average", text: (run) => percent(run.summary.utilization) },
  });
  choose("busy");
  if (!isKnown) return;
  timeline("useful", {
    key: "useful", label: "Devices turned into progress over time", limit: data.devices * 1.03,
    rest: { title: "On average", text: (run) => percent(run.summary.efficiency) },
  });
  host.append(choice("Show", [["busy", "in use"], ["useful", "turned into progress"]], "busy", choose),
    element("span", { class: "window-text" },
      "Progress: speeds of the running jobs, each as a multiple of its speed on one device."));
}
