// The chart of devices of one run at a time, coloured by size, tenant or job.

import { Key } from "../charts/bars.js";
import { Gantt } from "../charts/gantt.js";
import { sizeOf } from "../charts/spells.js";
import { html, render, useMemo, useState } from "../vendor/preact-htm.js";
import {
  BUCKET_COLOURS, TENANT_COLOURS, count, data, duration, onChange, percent, plural, runs, state,
} from "./base.js";
import { resetWindow, setWindow } from "./window.js";

const COLOURINGS = ["size", "tenant", "job"];

export function drawGantt(host) {
  const draw = () => render(html`<${RunGantt} view=${state.window} />`, host);
  onChange(draw);
  draw();
}

function RunGantt({ view }) {
  const [run, setRun] = useState(0);
  const [colouring, setColouring] = useState("size");
  const columns = useMemo(() => columnsOf(runs[run]), [run]);
  const colourOf = useMemo(() => holdColour(colouring), [colouring]);
  const tenants = data.jobs.tenant_names;
  const colourings = COLOURINGS.filter((name) => name !== "tenant" || tenants.length > 1);
  return html`<div class="controls">
      <${Choice} label="Policy" options=${runs.map(({ policy }, index) => [index, policy])} chosen=${run} choose=${setRun} />
      <${Choice} label="Colour by" options=${colourings.map((name) => [name, name])} chosen=${colouring} choose=${setColouring} />
    </div>
    <${Key} parts=${keyOf(colouring)}>
      ${colouring === "tenant" && tenants.length > 12 && html`<span>and ${plural(tenants.length - 12, "more tenant")}</span>`}
    <//>
    <${Gantt} labelledby="gantt-title" columns=${columns} colourOf=${colourOf} view=${view}
      whole=${{ from: 0, to: data.span_s }} onView=${setWindow} onReset=${resetWindow} describe=${(index) => described(columns, index)}>
      <p class="left">${leftOut(runs[run].holds)}</p>
    <//>`;
}

function Choice({ label, options, chosen, choose }) {
  return html`<div class="choice" role="group" aria-label=${label}><span class="choice-label">${label}</span>
    ${options.map(([value, text]) => html`<button type="button" key=${value} aria-pressed=${String(value === chosen)}
      onClick=${() => choose(value)}>${text}</button>`)}</div>`;
}

// Columns as they came, plus where the rows of each hold begin in `spans`.
function columnsOf({ holds, nodes }) {
  const starts = new Uint32Array(holds.job.length);
  for (let index = 0, at = 0; index < starts.length; index += 1) {
    starts[index] = at;
    at += 1 + 2 * holds.spans[at];
  }
  const turns = holds.turn.reduce((most, turn) => Math.max(most, turn), 0) + 1;
  return {
    nodes, starts, spans: holds.spans, job: holds.job, from: holds.from_s,
    to: holds.from_s.map((from, index) => from + holds.lasts_s[index]),
    rows: nodes.reduce((sum, [, width]) => sum + width, 0),
    turn: turns === 1 ? new Uint8Array(starts.length) : holds.turn,
    turns: new Uint8Array(starts.length).fill(turns),
  };
}

function holdColour(colouring) {
  const { buckets, tenants } = data.jobs;
  if (colouring === "size") return (job) => BUCKET_COLOURS[buckets[job]];
  if (colouring === "tenant") return (job) => TENANT_COLOURS[tenants[job] % TENANT_COLOURS.length];
  // The golden angle keeps neighbours apart.
  return (job) => `hsl(${(job * 137.5) % 360} 55% ${48 + (job % 3) * 8}%)`;
}

function keyOf(colouring) {
  const idle = { name: "idle", colour: "var(--free)" };
  if (colouring === "job") return [idle];
  const items = colouring === "size"
    ? data.buckets.map((name, index) => ({ name: name === "1" ? "1 device" : `${name} devices`, colour: BUCKET_COLOURS[index] }))
    : data.jobs.tenant_names.slice(0, 12).map((name, index) =>
      ({ name: name || "(no tenant)", colour: TENANT_COLOURS[index % TENANT_COLOURS.length] }));
  return [...items, idle];
}

function leftOut({ job, total, shown_share: share }) {
  const left = total - job.length;
  if (!left) return "";
  return `The ${count(job.length)} largest of ${count(total)} holds are drawn; the `
    + `${count(left)} left out are ${percent(1 - share)} of the device time in use.`;
}

function described(columns, index) {
  const { ids, sizes, tenants, tenant_names: names } = data.jobs;
  const [job, from, to] = [columns.job[index], columns.from[index], columns.to[index]];
  const devices = sizeOf(columns, index);
  const asked = devices === sizes[job] ? "" : ` (asked for ${sizes[job]})`;
  const tenant = names[tenants[job]] ? `, tenant ${names[tenants[job]]}` : "";
  return [html`<b>job ${ids[job]}</b>`, ` on ${plural(devices, "device")}${asked}${tenant}`
    + `, from ${duration(from)} to ${duration(to)}, held ${duration(to - from)}`];
}
