// Rows of the table of jobs.

import { ended, state, useTopic } from "../state.js";
import { html } from "../vendor/preact-htm.js";
import { asked, count, devices, moment, number, percent, range, span } from "./format.js";
import { done } from "./job-filter.js";
import { JobLink, Name, Owner } from "./job-name.js";
import { JobState } from "./job-state.js";
import { memo } from "./memo.js";
import { visible } from "./safe-text.js";

/** Reads its job itself: a tick that changes one job draws one row. */
export const JobRow = memo(({ id, index, active, selected, onSelect, onActive }) => {
  useTopic(`job:${id}`);
  const job = state.jobs.get(id);
  if (!job) return html`<div class="job-row" role="row" aria-rowindex=${index + 2}></div>`;
  const select = (event) => onSelect(index, event.shiftKey);
  return html`<div class="job-row ${active ? "active" : ""} ${selected ? "selected" : ""}" role="row" id=${`row-${index}`}
    aria-rowindex=${index + 2} aria-selected=${selected} onMouseDown=${() => onActive(index)}>
    ${cell("check", html`<input type="checkbox" tabindex="-1" checked=${selected} onClick=${select} aria-label=${`Select job ${id}`} />`)}
    ${cell("name", html`<${JobLink} id=${id} name=${job.name} />`)}
    ${cell("user", html`<${Owner} ...${job} />`)}
    ${cell("state-cell", html`<${JobState} state=${job.state} />`)}
    ${cell("reason", visible(job.because), visible(job.because))}
    ${cell("devices", held(job), ended(job) ? "Devices on average while it ran, of those that it asked for" : visible(devices(job.devices)))}
    ${cell("progress-cell", html`<${Progress} job=${job} />`)}
    ${cell("eta", job.end?.known ? range(job.end.low_s, job.end.high_s) : "", visible(job.end?.because))}
    ${cell("when", moment(job.submitted_at, { seconds: false }), "Submitted")}
  </div>`;
});

const cell = (name, content, title) => html`<span role="gridcell" class=${name} title=${title}>${content}</span>`;

function held(job) {
  const many = ended(job) && job.running_s > 0 ? number(job.device_s / job.running_s) : job.devices.length;
  const beside = job.beside.length ? html`<span class="beside" title=${`Shares its devices with ${job.beside.join(", ")}`}> + ${job.beside.map(visible).join(", ")}</span>` : "";
  return html`<b>${many}</b><span class="quiet">/${asked(job.sizes, "–")}</span>${beside}`;
}

/** A bar only where the job said how many steps there are; otherwise what it did say. */
export function Progress({ job }) {
  const share = done(job);
  if (share !== null) {
    return html`<span class="bar" role="img" aria-label=${percent(share)}><span style=${{ width: `${share * 100}%` }}></span></span>
      <span class="number">${percent(share)}</span>`;
  }
  if (job.progress) return html`<span class="quiet">step ${number(job.progress.step)}</span>`;
  return job.running_s ? html`<span class="quiet">ran ${span(job.running_s)}</span>` : "";
}

export const GroupRow = memo(({ name, kind, members, index, active, open, onToggle, onActive }) => {
  const running = members.filter((job) => job.devices.length);
  const held = running.reduce((sum, job) => sum + job.devices.length, 0);
  return html`<div class="job-row group ${active ? "active" : ""}" role="row" id=${`row-${index}`} aria-rowindex=${index + 2}
    aria-expanded=${open} onClick=${() => (onActive(index), onToggle(name))}>
    <span role="gridcell" class="check" aria-hidden="true">${open ? "▾" : "▸"}</span>
    <span role="gridcell" class="group-name"><b>${name ? html`<${Name} text=${name} />` : `no ${kind}`}</b>
      <span class="quiet"> ${count(members.length, "job")}, ${running.length} with ${count(held, "device")}</span></span>
  </div>`;
});
