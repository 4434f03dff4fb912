// Curves of a job over its time: how busy its devices are, memory, speed and loss.

import { LineChart } from "../charts/line.js";
import { html, useMemo } from "../vendor/preact-htm.js";
import { gib, number, percent, span } from "./format.js";

const HEIGHT = 170;
const GAP_MIN_S = 15; // without a measurement, while they come every few seconds

/** Seconds count from the job's first start. A curve without a measurement is not shown. */
export function Curves({ history, from_at, to_at }) {
  const { charts, missing } = useMemo(() => chartsOf(history, from_at), [history, from_at]);
  const x = { from: 0, to: Math.max(1, to_at - from_at) };
  return html`<div class="curves">
    ${charts.map((each) => html`<section class="card" key=${each.label} aria-label=${each.label}><h2>${each.label}</h2>
      <${LineChart} label=${each.label} series=${each.series} x=${x} y=${each.y} height=${HEIGHT} at=${(s) => `after ${span(s)}`} /></section>`)}
    ${missing.length > 0 && html`<p class="quiet small not-measured">Not measured or not said by the job: ${missing.join(", ")}.</p>`}
  </div>`;
}

function chartsOf(history, from_at) {
  const points = history.attempts.flatMap((attempt) => attempt.points).sort((a, b) => a.at - b.at);
  // Where nothing was measured, as while the daemon was down, no curve goes on.
  const gaps = points.slice(1).flatMap(({ at, span_s }, index) => {
    const { at: before, span_s: its_s } = points[index];
    return at - before - its_s > Math.max(GAP_MIN_S, 2 * span_s, 2 * its_s) ? [(before + its_s + at) / 2 - from_at] : [];
  });
  const load = (name, read) => series(name, points.map((point) => [point.at + point.span_s / 2 - from_at, read(point.mean)]), gaps);
  const said = (name, read) => series(name, (history.progress ?? []).map((point) => [point.at - from_at, read(point)]), gaps);
  const all = [
    { label: "Devices busy", y: { format: percent, exactly: 1 }, series: [load("busy", (mean) => mean.busy), load("multiprocessors", (mean) => mean.active)] },
    { label: "Device memory", y: { format: gib }, series: [load("most of a device", (mean) => mean.device_memory_gib)] },
    { label: "Steps a second", y: { format: number }, series: [said("steps a second", (point) => point.per_s)] },
    { label: "Loss", y: { format: number }, series: [said("loss", (point) => point.loss)] },
    { label: "Host memory", y: { format: gib }, series: [load("resident", (mean) => mean.memory_gib)] },
    { label: "Processor cores", y: { format: number }, series: [load("cores", (mean) => mean.cores)] },
  ].map((chart) => ({ ...chart, series: coloured(chart.series.filter((each) => each.xs.length)) }));
  return { charts: all.filter((chart) => chart.series.length), missing: all.filter((chart) => !chart.series.length).map((chart) => chart.label.toLowerCase()) };
}

const coloured = (all) => all.map((each, index) => ({ ...each, colour: index ? "--info" : "--accent", dash: index ? [6, 3] : undefined }));

function series(name, pairs, gaps) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined);
  if (known.length) known.push(...gaps.map((x) => [x, null]));
  known.sort((a, b) => a[0] - b[0]);
  return { name, xs: known.map(([x]) => Math.max(0, x)), ys: known.map(([, y]) => y) };
}
