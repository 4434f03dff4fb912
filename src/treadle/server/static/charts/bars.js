// Bars: shares of a whole in rows, and amounts by day stacked on each other.

import { html } from "../vendor/preact-htm.js";
import { LineChart } from "./line.js";

/** The names of parts beside their colours. */
export function Key({ parts, children }) {
  return html`<div class="chart-key">
    ${parts.map(({ name, colour }) => html`<span key=${name}><i class="block" style=${{ background: colour }} aria-hidden="true"></i>${name}</span>`)}
    ${children}
  </div>`;
}

/** Rows of one bar each: [{ name, parts: [{ name, share, text, colour, ink }], none, after }]. */
export function StackedRows({ rows }) {
  return html`<div class="stacks">${rows.map((row, index) => html`<div class="stack-row" key=${index}>
    <div class="stack-name">${row.name}</div>
    ${row.parts ? html`<div class="stack" role="img" aria-label=${spoken(row)}>
      ${row.parts.map((part) => html`<span class="stack-part" key=${part.name} title="${part.name} ${part.text}"
        style=${{ width: `${100 * part.share}%`, background: part.colour, color: part.ink }}>${part.share >= 0.09 ? part.inside ?? part.text : ""}</span>`)}
    </div>` : html`<div class="stack"><span class="stack-none">${row.none}</span></div>`}
    ${row.after !== undefined && html`<div class="stack-after">${row.after}</div>`}
  </div>`)}</div>`;
}

function spoken({ label, name, parts }) {
  return `${label ?? name}: ${parts.map((part) => `${part.name} ${part.text}`).join(", ")}`;
}

/** Amounts by day: days in order ("2026-11-16"), groups [{ name, colour, values }], the first at the bottom. */
export function DayBars({ label, days, groups, format, height = 240 }) {
  const below = days.map(() => 0);
  const series = groups.map(({ name, colour, values }) => {
    const ys = values.map((value, day) => (below[day] += value));
    const text = (x) => {
      const value = values[Math.round(x)];
      return value === undefined ? "–" : format(value);
    };
    const rest = format(values.reduce((sum, value) => sum + value, 0));
    return { name, colour, bars: true, xs: days.map((_, day) => day), ys, text, rest };
  }).reverse(); // The tallest is drawn first, so that those below it stay visible.
  const dayName = (day) => new Date(`${day}T00:00:00Z`).toLocaleDateString(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
  const clamped = (x) => Math.min(Math.max(Math.round(x), 0), days.length - 1);
  return html`<${LineChart} label=${label} series=${series} height=${height} restTitle="In all"
    at=${(x) => dayName(days[clamped(x)])} y=${{ format }}
    x=${{
      from: -0.6, to: days.length - 0.4, title: "",
      ticks: (_, __, most) => days.map((___, day) => day).filter((day) => day % Math.ceil(days.length / most) === 0),
      format: () => (x) => (days[x] ? dayName(days[x]) : ""),
    }} />`;
}
