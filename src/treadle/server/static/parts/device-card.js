// Everything known of the device that is pointed at, and of the jobs on it.

import { state, useTopic } from "../state.js";
import { html } from "../vendor/preact-htm.js";
import { asked, gib, percent, range, span } from "./format.js";
import { JobLink, Name, Owner } from "./job-name.js";
import { JobState } from "./job-state.js";
import { visible } from "./safe-text.js";

export function DeviceCard({ device, speeds, past }) {
  useTopic(...(device?.jobs ?? []).map((job) => `job:${job}`));
  if (!device) {
    return html`<section class="device-card card" aria-label="Device"><p class="quiet">${matchMedia("(hover: none)").matches ? "Tap a device to open its job." : "Point at a device, or move to it with the keyboard, to see what it does. Enter opens its job."}</p></section>`;
  }
  const used = device.memory_used_gib;
  return html`<section class="device-card card" aria-label="Device" aria-live="polite">
    <h2><${Name} text=${device.name} /> <span class="quiet">${visible(device.model ?? "")}</span></h2>
    <dl>
      <dt>State</dt><dd>${device.jobs.length > 1 ? `shared by ${device.jobs.length} jobs` : device.state}</dd>
      ${device.because && html`<dt>Because</dt><dd>${visible(device.because)}</dd>`}
      ${!past && html`<dt>Busy</dt><dd>${percent(device.busy) || html`<span class="quiet">not measured</span>`}</dd>
        <dt>Memory</dt><dd>${used === null || used === undefined ? html`<span class="quiet">not measured</span>` : `${gib(used)} of ${gib(device.memory_gib)}`}</dd>`}
    </dl>
    ${device.foreign.map((each) => html`<p class="warned">Process ${each.pid} of <${Name} text=${each.user} />${each.memory_gib ? `, ${gib(each.memory_gib)}` : ""}: <code>${visible(each.command)}</code></p>`)}
    ${device.spells
      ? device.spells.map((spell) => html`<${PastJob} key=${spell.job} spell=${spell} />`)
      : device.jobs.map((job) => html`<${JobHere} key=${job} id=${job} speed=${device.jobs.length > 1 ? speeds.get(job) : undefined} shared=${device.jobs.length > 1} />`)}
  </section>`;
}

function JobHere({ id, speed, shared }) {
  const job = state.jobs.get(id);
  if (!job) return html`<div class="job-here"><${JobLink} id=${id} /></div>`;
  return html`<div class="job-here">
    <div class="row"><span class="grow"><${JobLink} id=${id} /></span><${JobState} state=${job.state} /></div>
    <dl>
      <dt>User</dt><dd><${Owner} ...${job} /></dd>
      <dt>Devices</dt><dd>${job.devices.length} of ${asked(job.sizes)}</dd>
      ${job.plan && html`<dt>Plan</dt><dd><code>${visible(job.plan)}</code></dd>`}
      ${shared && html`<dt>Speed</dt><dd>${speed ? `${speed.toFixed(2)} of its speed alone` : html`<span class="quiet">not measured while sharing</span>`}</dd>`}
      ${job.end?.known && html`<dt>Ends in</dt><dd>${range(job.end.low_s, job.end.high_s)}</dd>`}
      <dt>Ran</dt><dd>${span(job.running_s)}</dd>
    </dl>
  </div>`;
}

function PastJob({ spell }) {
  return html`<div class="job-here"><${JobLink} id=${spell.job} name=${spell.name} />
    <dl><dt>User</dt><dd><${Owner} ...${spell} /></dd>
      <dt>Devices</dt><dd>${spell.devices.length}</dd>
      ${spell.plan && html`<dt>Plan</dt><dd><code>${visible(spell.plan)}</code></dd>`}
      <dt>Attempt</dt><dd>${spell.attempt}</dd></dl></div>`;
}
