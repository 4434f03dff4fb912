// The second table: further metrics, without colours or a baseline.

import {
  MISSING, broken, count, decimal, duration, element, formatOf, percent, runs, swatch,
} from "./base.js";

const MORE_COLUMNS = [
  { key: "jct_p90_s", title: "p90 JCT", format: duration },
  { key: "queue_p90_s", title: "p90 wait", format: duration },
  { key: "queue_length_max", title: "Longest queue", format: count },
  { key: "blocking_index", title: "Blocking index", format: decimal },
  { key: "efficiency", title: "Into progress", format: percent },
  { key: "restarts", title: "Restarts", format: count },
  { key: "resizes", title: "Resizes", format: count },
  { key: "moves", title: "Moves", format: count },
  { key: "interruptions", title: "Inter\u00adruptions", format: count },
  { key: "failures", title: "Failures", format: count },
  { key: "lost_gpu_h", title: "Lost GPU hours", format: decimal },
  { key: "decisions", title: "Decisions", format: count },
  { key: "decide_cpu_s", title: "CPU time to decide", format: duration },
];

export function moreTable() {
  const head = element("tr", {}, element("th", { scope: "col" }, "Policy"),
    ...MORE_COLUMNS.map(({ title }) => element("th", { scope: "col" }, title)));
  const rows = runs.map((run, index) => element("tr", {},
    element("th", { scope: "row" },
      element("div", { class: "policy" }, swatch(index), element("span", {}, ...broken(run.policy)))),
    ...MORE_COLUMNS.map((column) => moreCell(formatOf(column)(run.summary[column.key])))));
  return element("table", { class: "numbers more" }, element("thead", {}, head),
    element("tbody", {}, ...rows));
}

// Zeros are shown in a muted colour.
function moreCell(text) {
  const isNothing = ["0", "0.00", MISSING].includes(text);
  return element("td", { class: isNothing ? "nothing" : null }, text);
}
