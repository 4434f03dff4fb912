// Queue and shares: who waits for what, whose share is used, and how the free devices lie.

import { get } from "../api.js";
import { count, number, range } from "../parts/format.js";
import { JobLink, Name, Owner } from "../parts/job-name.js";
import { sentence as said, visible } from "../parts/safe-text.js";
import { Card, Table } from "../parts/table.js";
import { state } from "../state.js";
import { html } from "../vendor/preact-htm.js";
import { useReading } from "./reading.js";

const NODES_MAX = 64; // drawn

export default function Queue() {
  const { value, problem } = useReading((signal) => get("/queue", {}, signal), ["jobs", "decisions", "nodes"]);
  if (!value) return html`<h1>Queue and shares</h1><p class="empty" role="status">${problem ? problem.sentence : "Loading…"}</p>`;
  const { jobs, waiting, held_back: back, shares, fragmentation } = value;
  return html`<div class="heading"><h1>Queue and shares</h1>
      <span class="quiet">${waiting ? count(waiting, "job waits", "jobs wait") : "no job waits"}${back > 0 && `, ${back} of them in no line`}</span>
      ${problem && html`<span class="problem" role="status">${problem.sentence}</span>`}</div>
    <div class="views">
      <${Card} name="queue" title="Who waits for what" wide>
        ${jobs.length > 0 && html`<${Waiting} jobs=${jobs} line=${waiting - back} />`}
        ${!waiting && html`<p class="empty">Nothing waits: a job that is submitted now starts if its devices are free.</p>`}
        ${back > 0 && html`<p class="quiet small">${count(back, "job is", "jobs are")} in no line, held back by the limit of an array or a machine, or never able to run here. <a href="#/jobs?show=waiting">Each says why</a>.</p>`}<//>
      <${Card} name="shares" title="Shares of tenants"><${Shares} shares=${shares} /><//>
      <${Card} name="free" title="Free devices"><${Free} ...${fragmentation} /><//>
    </div>`;
}

function Waiting({ jobs, line }) {
  return html`<${Table} name="queue" class="queue-table" heads=${["#Place", "Job", "User", "Asks for", "Starts in", "Because"]}>
      ${jobs.map((each) => html`<tr key=${each.job}>
        <td class="number">${each.place}</td>
        <th scope="row"><${JobLink} id=${each.job} name=${each.name} /></th>
        <td><${Owner} ...${each} /></td>
        <td class="nowrap">${each.asks}</td>
        <td class="nowrap" title=${each.start?.sentence}>${startText(each.start)}</td>
        <td class="because">${visible(each.because)}</td></tr>`)}<//>
    ${line > jobs.length && html`<p class="quiet small">The first ${jobs.length} of ${count(line, "job")}.</p>`}`;
}

/** When it starts, as far as simulations say. */
export function startText(start) {
  if (!start) return html`<span class="quiet">not known</span>`;
  const { earliest_s: low, latest_s: high } = start;
  if (low === null && high === null) return html`<span class="quiet">unknown: ${visible(start.sentence)}</span>`;
  return range(low, high);
}

function Shares({ shares }) {
  if (!shares.length) return html`<p class="quiet">No tenant has a job now.</p>`;
  const hasQuotas = shares.some(({ deserved }) => deserved !== null);
  // A full bar is the whole cluster.
  const most = Math.max(state.status?.devices ?? 0, ...shares.flatMap(({ used, deserved }) => [used, deserved ?? 0]), 1e-9);
  const amount = (value) => (value === null ? "–" : number(value));
  return html`${!hasQuotas && html`<p class="quiet">The policy has no quotas: nothing is deserved, borrowed or lent.</p>`}
    <${Table} name="shares" heads=${["Tenant", "Of all devices", "#Used", ...(hasQuotas ? ["#Deserved", "#Borrowed", "#Lent"] : []), "#Waiting"]}>
      ${shares.map((each) => html`<tr key=${each.tenant}><th scope="row">${each.tenant ? html`<${Name} text=${each.tenant} />` : "(none)"}</th>
        <td class="share-bar"><${ShareBar} ...${each} most=${most} /></td><td class="number">${amount(each.used)}</td>
        ${hasQuotas && html`<td class="number">${amount(each.deserved)}</td><td class="number">${amount(each.borrowed)}</td><td class="number">${amount(each.lent)}</td>`}
        <td class="number">${each.waiting}</td></tr>`)}<//>
    ${hasQuotas && html`<p class="quiet small">The line in a bar is what the tenant deserves; beyond it, devices are borrowed.</p>`}`;
}

// Hidden from screen readers: the numbers are in the table.
function ShareBar({ used, deserved, most }) {
  const own = deserved === null ? used : Math.min(used, deserved);
  const part = (value) => ({ width: `${(100 * value) / most}%` });
  return html`<div class="share-track" aria-hidden="true"><i style=${part(own)}></i><i class="borrowed" style=${part(used - own)}></i>
    ${deserved !== null && html`<b style=${{ left: `${(100 * deserved) / most}%` }}></b>`}</div>`;
}

function Free({ free, largest_gang: largest, nodes, sentence }) {
  return html`<p>${said(sentence)}.</p>
    ${free > 0 && html`<dl><dt>Free</dt><dd>${count(free, "device")}</dd><dt>Largest on one node</dt><dd>${count(largest, "device")}</dd></dl>
      <ul class="free-nodes">${nodes.slice(0, NODES_MAX).map((node) => html`<li key=${node.node}>
        <span class="free-name"><${Name} text=${node.node} /></span>
        <span class="free-squares" aria-hidden="true">${Array.from({ length: Math.min(node.devices, 16) }, (_, index) =>
          html`<i class=${index < Math.round((node.free * Math.min(node.devices, 16)) / node.devices) ? "is-free" : ""}></i>`)}</span>
        <span class="quiet">${node.free} of ${node.devices}</span></li>`)}</ul>
      ${nodes.length > NODES_MAX && html`<p class="quiet small">The ${NODES_MAX} nodes with the most of ${nodes.length}.</p>`}`}`;
}
