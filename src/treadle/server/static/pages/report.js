// A report from disk, as `treadle compare --json` or `simulate --json` prints it: a table of runs,
// each beside the first.

import { broken } from "../charts/line.js";
import { count, number, percent, span } from "../parts/format.js";
import { visible } from "../parts/safe-text.js";
import { Table } from "../parts/table.js";
import { html } from "../vendor/preact-htm.js";

// The name in the file, the title, how a value reads, whether less is better.
const COLUMNS = [
  ["finished", "Finished", (value) => value.toLocaleString("en")],
  ["jct_mean_s", "Mean completion", span, true],
  ["jct_p99_s", "p99 completion", span, true],
  ["queue_mean_s", "Mean wait", span, true],
  ["makespan_s", "All done after", span, true],
  ["utilization", "Devices used", percent],
  ["interruptions", "Interruptions", number],
];

export const NOT_SIMULATED = "Read in this browser; nothing was sent. Simulate is about the present queue, not about this file.";

/** The runs of a file's content, as { title, notes, runs }; null if it is no report. */
export function reportOf(found) {
  const runs = Array.isArray(found) ? found : Array.isArray(found?.runs) ? found.runs : [found];
  const isRun = (run) => typeof run?.policy === "string" && COLUMNS.every(([key]) => [undefined, null].includes(run[key]) || typeof run[key] === "number");
  if (!runs.length || !runs.every((run) => isRun(run) && "jct_mean_s" in run)) return null;
  const isText = (each) => typeof each === "string";
  return { title: [found.title, found.trace].find(isText) ?? "", notes: Array.isArray(found.notes) ? found.notes.filter(isText) : [], runs };
}

export function Report({ report, file }) {
  const { title, notes, runs } = report;
  return html`<section class="card" aria-labelledby="report-title"><h2 id="report-title"><bdi>${visible(file)}</bdi>${title && html`: ${visible(title)}`}</h2>
    <p class="quiet">${count(runs.length, "simulated run")}${runs.length > 1 && ", each beside the first"}. ${NOT_SIMULATED}</p>
    <${Table} name="report" heads=${["Policy", ...COLUMNS.map(([, words]) => `#${words}`)]}>
      ${runs.map((run, index) => html`<tr key=${index}><th scope="row">${broken(visible(run.policy))}</th>
        ${COLUMNS.map(([key, , read, less]) => html`<td class="number" key=${key}>${run[key] === null || run[key] === undefined ? "–" : read(run[key])}
          ${index > 0 && less && beside(run[key], runs[0][key])}</td>`)}</tr>`)}<//>
    <${Notes} notes=${notes} /></section>`;
}

export function Notes({ notes }) {
  return notes.length > 0 && html`<h3 class="notes-title">What was assumed</h3><ul class="notes">${notes.map((note) => html`<li key=${note}>${visible(note)}</li>`)}</ul>`;
}

function beside(value, first) {
  if (!(value >= 0 && first > 0)) return "";
  const share = value / first;
  if (Math.abs(share - 1) < 0.005) return html`<div class="quiet">the same</div>`;
  return html`<div class=${share < 1 ? "good" : "bad"}>${share < 1 ? "▼" : "▲"} ${share.toFixed(2)}×</div>`;
}
