// The key numbers on top and the table of all runs, both against a chosen baseline.

import {
  MISSING, broken, count, decimal, duration, element, formatOf, percent, place, plural, runs, state, swatch,
} from "./base.js";
import { moreTable } from "./more_figures.js";

// better: -1 less is better, 1 more is better, 0 neither. points: compare by difference.
const COLUMNS = [
  { key: "jct_mean_s", title: "Mean JCT", format: duration, better: -1 },
  { key: "jct_p50_s", title: "Median JCT", format: duration, better: -1 },
  { key: "jct_p99_s", title: "p99 JCT", format: duration, better: -1 },
  { key: "queue_mean_s", title: "Mean wait", format: duration, better: -1 },
  { key: "makespan_s", title: "Makespan", format: duration, better: -1 },
  { key: "utilization", title: "In use", format: percent, better: 1, points: true },
  { key: "queue_length_mean", title: "Mean queue", format: decimal, better: -1 },
  { key: "unfair_share", title: "Unfair", format: percent, better: -1, points: true },
  { key: "preemptions", title: "Preemptions", format: count, better: 0 },
];
const TILES = [
  { key: "jct_mean_s", title: "Shortest mean completion", format: duration, better: -1 },
  { key: "jct_p99_s", title: "Shortest p99 completion", format: duration, better: -1 },
  { key: "queue_mean_s", title: "Shortest mean wait", format: duration, better: -1 },
  { key: "utilization", title: "Most devices in use", format: percent, better: 1, points: true },
];
const order = { key: null, direction: 1 };

export function drawSummary() {
  place("tiles").replaceChildren(...TILES.map(tile));
  place("summary-lead").replaceChildren(...summaryLead());
  place("summary").replaceChildren(element("table", { class: "numbers" }, headRow(), bodyRows()));
  place("summary-note").textContent = missingJobs();
  place("more").replaceChildren(moreTable());
}

function summaryLead() {
  const means = "JCT is the time from submission to finish; means are over finished jobs.";
  if (runs.length === 1) return [means];
  return [
    "Compared with ", element("b", {}, runs[state.baseline].policy),
    ". Choose another baseline by its button, sort by a column's title. ", means,
  ];
}

// -- key numbers --------------------------------------------------------------------------------

function tile(column) {
  const best = bestRuns(column);
  const value = best.length ? runs[best[0]].summary[column.key] : null;
  return element("div", { class: "tile" },
    element("div", { class: "tile-title" }, runs.length > 1 ? column.title : plainTitle(column)),
    element("div", { class: "tile-value" }, formatOf(column)(value)),
    element("div", { class: "tile-note" }, ...tileNote(column, best)));
}

function plainTitle(column) {
  return COLUMNS.find((other) => other.key === column.key).title;
}

function tileNote(column, best) {
  if (!best.length) return ["no job finished"];
  if (runs.length === 1) return [element("b", {}, runs[0].policy)];
  if (best.length === runs.length) return ["same for all"];
  const names = best.flatMap((index) => [" and ", element("b", {}, runs[index].policy)]).slice(1);
  if (best.length > 2) return [...names.slice(0, 1), ` and ${plural(best.length - 1, "other")}`];
  if (best.includes(state.baseline)) return [...names, best.length > 1 ? "" : ", the baseline"];
  const against = element("span", { class: "compared" }, ` vs ${runs[state.baseline].policy}`);
  return [...names, " ", comparedCell(column, best[0]), against];
}

// The runs with the best value, including those whose value prints the same.
function bestRuns(column) {
  const known = runs.map((_, index) => index).filter((index) => runs[index].summary[column.key] !== null);
  const value = (index) => runs[index].summary[column.key];
  const best = known.reduce((one, other) =>
    (one === null || (value(other) - value(one)) * column.better > 0 ? other : one), null);
  const say = formatOf(column);
  return known.filter((index) => say(value(index)) === say(value(best)));
}

// -- table --------------------------------------------------------------------------------------

function headRow() {
  const policy = { key: null, title: "Policy" };
  return element("thead", {}, element("tr", {}, ...[policy, ...COLUMNS].map((column) => {
    const isChosen = order.key === column.key;
    const sorted = isChosen && column.key ? (order.direction > 0 ? "ascending" : "descending") : "none";
    const arrow = sorted === "none" ? "" : order.direction > 0 ? " ↑" : " ↓";
    return element("th", { scope: "col", "aria-sort": sorted },
      element("button", { type: "button", class: "sort", onclick: () => sortBy(column) },
        column.title + arrow));
  })));
}

function sortBy(column) {
  order.direction = order.key === column.key ? -order.direction : column.better > 0 ? -1 : 1;
  order.key = column.key;
  drawSummary();
}

function bodyRows() {
  const indexes = runs.map((_, index) => index);
  if (order.key) {
    const value = (index) => runs[index].summary[order.key] ?? Infinity;
    indexes.sort((one, other) => (value(one) - value(other)) * order.direction || one - other);
  }
  return element("tbody", {}, ...indexes.map(bodyRow));
}

function bodyRow(index) {
  const isBaseline = index === state.baseline;
  const button = runs.length < 2 ? null : element("button", {
    type: "button", class: "baseline", "aria-pressed": String(isBaseline),
    "aria-label": `Compare with ${runs[index].policy}`,
    onclick: () => {
      state.baseline = index;
      drawSummary();
    },
  }, isBaseline ? "baseline" : "compare");
  return element("tr", { class: isBaseline ? "is-baseline" : null },
    element("th", { scope: "row" },
      element("div", { class: "policy" }, swatch(index), element("span", {}, ...broken(runs[index].policy))), button),
    ...COLUMNS.map((column) => element("td", {},
      element("div", {}, formatOf(column)(runs[index].summary[column.key])),
      isBaseline || runs.length < 2 ? null : comparedCell(column, index))));
}

// A value against the baseline's: an arrow, how much, and a colour for better or worse.
function comparedCell(column, index) {
  const value = runs[index].summary[column.key];
  const base = runs[state.baseline].summary[column.key];
  if (value === null || base === null) return element("div", { class: "compared" }, MISSING);
  const difference = value - base;
  const text = column.points ? `${(100 * Math.abs(difference)).toFixed(1)} points`
    : base ? `${(value / base).toFixed(2)}×` : difference ? `+${count(difference)}` : "1.00×";
  const isSame = column.points ? Math.abs(difference) < 0.0005 : Math.abs(difference) <= base * 0.005;
  if (isSame) return element("span", { class: "compared" }, "= same");
  const verdict = Math.sign(difference) * column.better;
  const kind = verdict > 0 ? "better" : verdict < 0 ? "worse" : "";
  return element("span", { class: `compared ${kind}`, title: kind || null },
    `${difference > 0 ? "▲" : "▼"} ${text}`);
}

function missingJobs() {
  const sentences = runs.map(({ policy, summary }) => {
    const parts = [
      [summary.failed, "failed"], [summary.cancelled, "cancelled"],
      [summary.never_fit, "can never fit this cluster"], [summary.unfinished, "did not finish"],
    ].filter(([number]) => number).map(([number, what]) => `${count(number)} ${what}`);
    return parts.length ? `${policy}: of ${plural(summary.jobs, "job")} ${parts.join(", ")}.` : "";
  });
  return sentences.filter(Boolean).join(" ");
}
