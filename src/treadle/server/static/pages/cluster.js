// Cluster: every node and device, coloured by job, now or at a moment of the past.

import { useSpeeds } from "../parts/company.js";
import { DeviceCard } from "../parts/device-card.js";
import { NodeGrid } from "../parts/device-grid.js";
import { count } from "../parts/format.js";
import { JobLink } from "../parts/job-name.js";
import { Scrubber } from "../parts/scrubber.js";
import { nodesAt } from "../parts/spells.js";
import { state, useTopic } from "../state.js";
import { html, useCallback, useMemo, useState } from "../vendor/preact-htm.js";

const COMPACT_FROM = 96; // devices
const LISTED_MAX = 40; // jobs in the list

export default function Cluster() {
  useTopic("nodes");
  const [past, setPast] = useState({ at: null, page: null });
  const [looked, setLooked] = useState("");
  const [highlighted, setHighlighted] = useState(null);
  const move = useCallback((at, page) => setPast({ at, page }), []);
  const nodes = useMemo(
    () => (past.at === null ? [...state.nodes.values()] : nodesAt(past.page, past.at)),
    [past, state.version.nodes],
  );
  const devices = nodes.flatMap((node) => node.devices);
  const shared = past.at === null ? [...new Set(devices.filter((each) => each.jobs.length > 1).flatMap((each) => each.jobs))] : [];
  const speeds = useSpeeds(shared);
  if (!state.loaded) return html`<div class="waiting" role="status">Reading the cluster…</div>`;
  return html`<h1 class="hidden-text">Cluster</h1>
    <${Scrubber} at=${past.at} onMove=${move} />
    <div class="with-side">
      <div><div class="nodes ${past.at === null ? "" : "past"}">
        ${nodes.map((node) => html`<${NodeGrid} key=${node.name} node=${node} speeds=${speeds} highlighted=${highlighted}
          compact=${devices.length > COMPACT_FROM} onLook=${setLooked} />`)}
        ${!nodes.length && html`<p class="empty">There is no node${past.at === null ? "" : " in what is kept of that moment"}.</p>`}
      </div><${Summary} devices=${devices} /></div>
      <aside class="side" aria-label="Details">
        <${DeviceCard} device=${devices.find((each) => each.name === looked)} speeds=${speeds} past=${past.at !== null} />
        <${Holders} devices=${devices} onHighlight=${setHighlighted} />
      </aside>
    </div>`;
}

/** What the tiles mean, with how many of each there are. */
function Summary({ devices }) {
  const kinds = new Map();
  for (const device of devices) {
    const kind = device.jobs.length > 1 ? "shared" : device.state;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  return html`<p class="tile-legend quiet">${[...kinds].map(
    ([kind, many]) => html`<span><span class="tile-key ${kind}" aria-hidden="true"></span>${many} ${kind}</span>`,
  )}</p>`;
}

function Holders({ devices, onHighlight }) {
  const held = new Map();
  for (const device of devices) for (const job of device.jobs) held.set(job, [...(held.get(job) ?? []), device]);
  const jobs = [...held].sort((a, b) => b[1].length - a[1].length);
  return html`<section class="card holders" aria-label="Jobs with devices">
    <h2>${count(jobs.length, "job has", "jobs have")} devices</h2>
    ${jobs.length === 0 && html`<p class="quiet">Submit one: <code>treadle submit -- python train.py</code></p>`}
    <ul>${jobs.slice(0, LISTED_MAX).map(
      ([job, on]) => html`<li key=${job} onMouseEnter=${() => onHighlight(job)} onMouseLeave=${() => onHighlight(null)}
        onFocusIn=${() => onHighlight(job)} onFocusOut=${() => onHighlight(null)}>
        <${JobLink} id=${job} name=${state.jobs.get(job)?.name ?? on[0].spells?.find((each) => each.job === job)?.name} />
        <span class="quiet">${count(on.length, "device")}</span></li>`,
    )}</ul>
    ${jobs.length > LISTED_MAX && html`<a href="#/jobs?show=running">${jobs.length - LISTED_MAX} more</a>`}
  </section>`;
}
