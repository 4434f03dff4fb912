// A job wherever it is mentioned: its colour, its id and its name, as a link.

import { ended, state } from "../state.js";
import { html } from "../vendor/preact-htm.js";
import { lookClass } from "./colour.js";
import { visible } from "./safe-text.js";

export const jobAddress = (id) => `#/jobs/${encodeURIComponent(id)}`;

export function Swatch({ id }) {
  return html`<span class="swatch ${lookClass(id)}" aria-hidden="true"></span>`;
}

/** Names are users' text: isolated, so that their direction cannot leak. */
export function Name({ text }) {
  return html`<bdi>${visible(text)}</bdi>`;
}

export function Owner({ user, tenant }) {
  return html`<${Name} text=${user} />${tenant && tenant !== user && html`<span class="quiet"> · <${Name} text=${tenant} /></span>`}`;
}

/** What a field for a job offers. */
export function JobOptions({ id }) {
  const active = [...state.jobs.values()].filter((each) => !ended(each)).slice(0, 500);
  return html`<datalist id=${id}>${active.map((each) => html`<option value=${each.id} key=${each.id}>${each.name ?? ""}</option>`)}</datalist>`;
}

export function JobLink({ id, name = state.jobs.get(id)?.name }) {
  return html`<a class="job-link" href=${jobAddress(id)}><${Swatch} id=${id} /><span class="id">${visible(id)}</span>
    ${name && html` <${Name} text=${name} />`}</a>`;
}
