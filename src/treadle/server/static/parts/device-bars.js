// Which devices a job held over its time: a row for each device, a bar for each spell.

import { html } from "../vendor/preact-htm.js";
import { lookClass } from "./colour.js";
import { moment, span } from "./format.js";
import { visible } from "./safe-text.js";

const ROWS_MAX = 32;
const natural = new Intl.Collator("en", { numeric: true });

export function DeviceBars({ id, spells, from_at, to_at, cut }) {
  if (!spells.length) return null;
  const rows = [...new Set(spells.flatMap((spell) => spell.devices))].sort(natural.compare);
  const share = (at) => `${(Math.min(1, Math.max(0, (at - from_at) / (to_at - from_at))) * 100).toFixed(2)}%`;
  return html`<section class="card device-bars" aria-label="Devices over time">
    <h2>Devices over time</h2>
    ${rows.slice(0, ROWS_MAX).map((device) => html`<div class="bars-row" key=${device}><span class="mono">${visible(device)}</span>
      <div class="lane">${spells.filter((spell) => spell.devices.includes(device)).map((spell) => html`<span class="held ${lookClass(id)}"
        style=${{ left: share(spell.from_at), right: `calc(100% - ${share(spell.to_at ?? to_at)})` }} title=${words(spell)}></span>`)}</div></div>`)}
    ${rows.length > ROWS_MAX && html`<p class="quiet small">and ${rows.length - ROWS_MAX} more devices</p>`}
    ${cut && html`<p class="quiet small">Only the newest part of its time is shown.</p>`}
    <div class="bars-row quiet small"><span></span><div class="row"><span class="grow">${moment(from_at)}</span><span>${moment(to_at)}</span></div></div>
  </section>`;
}

function words(spell) {
  const length = spell.to_at === null ? `since ${moment(spell.from_at)}` : `${moment(spell.from_at)} to ${moment(spell.to_at)}, ${span(spell.to_at - spell.from_at)}`;
  return `attempt ${spell.attempt}, ${spell.devices.length} devices${spell.plan ? `, plan ${visible(spell.plan)}` : ""}: ${length}`;
}
