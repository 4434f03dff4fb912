// Usage: device-hours by day, user and tenant, and what of them was wasted.

import { get, request } from "../api.js";
import { DayBars, Key, StackedRows } from "../charts/bars.js";
import { download } from "../parts/download.js";
import { number } from "../parts/format.js";
import { Name } from "../parts/job-name.js";
import { Card, Table } from "../parts/table.js";
import { toastProblem } from "../parts/toast.js";
import { now, useTopic } from "../state.js";
import { html, useMemo, useState } from "../vendor/preact-htm.js";
import { useReading } from "./reading.js";

const DAY_S = 86400;
const SPANS = [[1, "today"], [7, "7 days"], [30, "30 days"], [365, "a year"]];
const GROUPS_MAX = 8; // in the chart; the others are one
// With the colour that stands for it; text carries the name too.
const CAUSES = [["failed_h", "failed attempts", "--job-7"], ["idle_h", "idle while held", "--job-5"], ["restart_h", "starting", "--job-4"]];

export default function Usage({ query }) {
  const [days, setDays] = useState(Number(query.days) || 7);
  const [by, setBy] = useState("user");
  const since_at = Math.floor(now() / DAY_S) * DAY_S - (days - 1) * DAY_S;
  useTopic("minute");
  const { value, problem, isReading } = useReading((signal) => get("/usage/days", { since_at }, signal), ["minute"], `${days} ${since_at}`);
  return html`<div class="heading"><h1>Usage</h1><span class="quiet">device-hours, days in UTC</span>
      <span class="choice" role="group" aria-label="Days">${SPANS.map(([each, text]) => html`<button key=${each} aria-pressed=${String(each === days)} onClick=${() => setDays(each)}>${text}</button>`)}</span>
      <span class="choice" role="group" aria-label="By">${["user", "tenant"].map((each) => html`<button key=${each} aria-pressed=${String(each === by)} onClick=${() => setBy(each)}>by ${each}</button>`)}</span>
      <button onClick=${() => saveCsv(since_at).catch(toastProblem)} title="Download as a table">CSV</button></div>
    ${problem && html`<p class="problem" role="status">${problem.sentence}</p>`}
    ${value ? html`<${Shown} usage=${value} by=${by} since_at=${since_at} isReading=${isReading} />` : html`<p class="empty" role="status">${problem ? "" : "Loading…"}</p>`}`;
}

// A plain link would lack the header without which a session counts for nothing.
async function saveCsv(since_at) {
  const answer = await request("GET", "/usage/days", { query: { since_at, format: "csv" } });
  download(await answer.blob(), "usage.csv");
}

function Shown({ usage, by, since_at, isReading }) {
  const groups = useMemo(() => grouped(usage.rows, by), [usage, by]);
  if (!usage.rows.length) return html`<p class="empty">No job held a device in this time.</p>`;
  const all = total(usage.rows);
  const ofDays = (name) => sum(usage.days.map((day) => day[name]));
  return html`<div class="views" aria-busy=${isReading}>
    <${Card} name="days" title="Allocated by day" wide><${Days} usage=${usage} by=${by} groups=${groups} since_at=${since_at} /><//>
    <${Card} name="sums" title="In all"><${Sums} all=${all} capacity=${ofDays("capacity_h")} fragmented=${ofDays("fragmented_h")} /><//>
    <${Card} name="waste" title="Waste by cause"><${Waste} groups=${groups} /><//>
    <${Card} name="rows" title=${`By ${by}`} wide><${Rows} groups=${groups} by=${by} /><//></div>`;
}

// -- sums --

// The sum of what is known; null where nothing is.
function sum(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length ? known.reduce((one, other) => one + other, 0) : null;
}

function total(rows) {
  const names = ["jobs", "allocated_h", "measured_h", "used_h", "failed_h", "idle_h", "restart_h"];
  return Object.fromEntries(names.map((name) => [name, sum(rows.map((row) => row[name]))]));
}

function grouped(rows, by) {
  const found = new Map();
  for (const row of rows) found.set(row[by], [...(found.get(row[by]) ?? []), row]);
  return [...found].map(([name, its]) => ({ name, rows: its, ...total(its) })).sort((one, other) => other.allocated_h - one.allocated_h);
}

const amount = (value) => (value > 0 && value < 0.01 ? "<0.01" : number(value));
const hours = (value) => (value === null || value === undefined ? "not known" : `${amount(value)} h`);
const share = (part, whole) => (part === null || !whole ? "" : ` (${Math.round((100 * part) / whole)} %)`);

// -- parts --

function Days({ usage, by, groups, since_at: since }) {
  const days = useMemo(() => daysFrom(since, usage), [usage, since]);
  const bars = useMemo(() => {
    const large = groups.slice(0, groups.length > GROUPS_MAX ? GROUPS_MAX - 1 : GROUPS_MAX);
    const rest = groups.slice(large.length);
    const values = (rows) => days.map((day) => sum(rows.filter((row) => row.day === day).map((row) => row.allocated_h)) ?? 0);
    const shown = large.map(({ name, rows }, index) => ({ name: name || `(no ${by})`, colour: `--job-${index}`, values: values(rows) }));
    if (rest.length) shown.push({ name: `${rest.length} others`, colour: "--quiet", values: values(rest.flatMap(({ rows }) => rows)) });
    return shown;
  }, [groups, days]);
  return html`<${DayBars} label="Device-hours allocated by day and ${by}" days=${days} groups=${bars} format=${hours} />`;
}

// Every day, also those without a job; of a long time only from the first one with something on.
function daysFrom(since, { rows }) {
  const first = rows.map(({ day }) => Date.parse(`${day}T00:00:00Z`) / 1000).reduce((one, other) => Math.min(one, other));
  const begin = now() - since > 31 * DAY_S ? Math.max(since, first) : Math.min(since, first);
  const count = Math.floor((now() - begin) / DAY_S) + 1;
  return Array.from({ length: count }, (_, index) => new Date((begin + index * DAY_S) * 1000).toISOString().slice(0, 10));
}

function Sums({ all, capacity, fragmented }) {
  return html`<dl class="sums"><dt>Allocated</dt><dd>${hours(all.allocated_h)}${share(all.allocated_h, capacity)}</dd>
      <dt>Used</dt><dd>${hours(all.used_h)}${share(all.used_h, all.measured_h)}</dd>
      <dt>Fragmented</dt><dd title="Free, but not where a waiting job needs them">${hours(fragmented)}</dd>
      <dt>There were</dt><dd>${hours(capacity)}</dd></dl>
    <p class="quiet small">Used: allocated hours times how busy the devices were${all.used_h === null ? "; nothing measured it" : `, of the ${number(all.measured_h)} h where that was measured`}.
      A device that jobs share counts for each of them, so that more may be allocated than there was.</p>`;
}

function Waste({ groups }) {
  const most = Math.max(...groups.map((group) => sum(CAUSES.map(([key]) => group[key])) ?? 0), 1e-9);
  const known = CAUSES.filter(([key]) => groups.some((group) => group[key] !== null));
  const rows = groups.slice(0, 12).map((group) => {
    const wasted = sum(known.map(([key]) => group[key])) ?? 0;
    const parts = known.filter(([key]) => group[key] > 0).map(([key, name, colour]) => ({
      name, colour: `var(${colour})`, ink: "#000", share: group[key] / most, text: hours(group[key]),
    }));
    return {
      name: html`<${Name} text=${group.name || "(none)"} />`, label: group.name || "(none)", parts: parts.length ? parts : null,
      none: "none seen", after: wasted ? `${hours(wasted)}${share(wasted, group.allocated_h + (group.restart_h ?? 0))}` : "",
    };
  });
  const missing = CAUSES.filter((cause) => !known.includes(cause)).map(([, name]) => name);
  return html`<${Key} parts=${known.map(([, name, colour]) => ({ name, colour: `var(${colour})` }))} /><${StackedRows} rows=${rows} />
    ${missing.length > 0 && html`<p class="quiet small">Not measured here: ${missing.join(", ")}.</p>`}`;
}

function Rows({ groups, by }) {
  const other = by === "user" ? "tenant" : "user";
  const cell = (value) => (value === null ? html`<span class="quiet" title="Not measured">–</span>` : amount(value));
  return html`<${Table} name="rows" heads=${[...(by === "user" ? ["User", "Tenants"] : ["Tenant", "Users"]), "#Jobs", "#Allocated h", "#Used h", "#Failed h", "#Idle h", "#Starting h"]}>
    ${groups.map((group) => html`<tr key=${group.name}><th scope="row">${group.name ? html`<${Name} text=${group.name} />` : "(none)"}</th>
      <td class="quiet">${[...new Set(group.rows.map((row) => row[other]))].slice(0, 6).map((name, index) => [index ? ", " : "", html`<${Name} text=${name || "(none)"} />`])}</td>
      <td class="number">${group.jobs}</td><td class="number">${cell(group.allocated_h)}</td><td class="number">${cell(group.used_h)}</td>
      <td class="number">${cell(group.failed_h)}</td><td class="number">${cell(group.idle_h)}</td><td class="number">${cell(group.restart_h)}</td></tr>`)}<//>
  <p class="quiet small">A job that ran on several days is counted on each of them.</p>`;
}
