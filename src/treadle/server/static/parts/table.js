// Cards and tables that scroll on a small screen.

import { html } from "../vendor/preact-htm.js";

/** `name` makes the ids that the title is found by. */
export function Card({ name, title, wide, children }) {
  return html`<section class="card ${wide ? "wide" : ""}" aria-labelledby=${`${name}-title`}><h2 id=${`${name}-title`}>${title}</h2>${children}</section>`;
}

/** `heads`: titles of columns, with a # before those of numbers; `name`: that of the card it is in. */
export function Table({ name, label, heads, children, ...rest }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label} aria-labelledby=${name && `${name}-title`}><table ...${rest}>
    <thead><tr>${heads.filter((each) => each !== false).map((each) => html`<th scope="col" class=${each.startsWith("#") ? "number" : ""} key=${each}>${each.replace("#", "")}</th>`)}</tr></thead>
    <tbody>${children}</tbody></table></div>`;
}
