// Where the time of a step goes, and what limits it.

import { html } from "../vendor/preact-htm.js";
import { count, number, percent } from "./format.js";
import { visible } from "./safe-text.js";

const ORDER = ["load", "prepare", "compute", "sync"];
const WORDS = { load: "loading data", prepare: "preparing", compute: "computing", sync: "synchronising", turns: "waiting for turns", other: "the rest" };

const speed = (per_s, size) => `${number(per_s)} steps a second on ${count(size, "device")}`;

/** `now_per_s`: of a job that runs, newer than its history. */
export function Profile({ history, now_per_s }) {
  const stages = ORDER.filter((name) => history.stages?.[name] > 0).map((name) => [name, history.stages[name]]);
  const sum = stages.reduce((before, [, seconds]) => before + seconds, 0);
  const whole = Math.max(history.stages?.step ?? 0, sum);
  if (stages.length && whole > sum * 1.005) stages.push(["other", whole - sum]);
  const { predicted_per_s: predicted } = history;
  const observed = now_per_s ?? history.observed_per_s;
  const known = (value) => value !== null && value !== undefined;
  if (!stages.length && !history.bottleneck && !known(observed) && !known(predicted)) return null;
  return html`<section class="card profile" aria-label="Resource profile">
    <h2>Resource profile</h2>
    <p>${history.bottleneck ? html`<b>Limited by:</b> ${visible(history.bottleneck)}` : html`<span class="quiet">What limits its speed is not known.</span>`}</p>
    ${stages.length > 0 && html`<div class="stages" role="img" aria-label=${`A step: ${stages.map(([name, seconds]) => `${WORDS[name]} ${percent(seconds / whole)}`).join(", ")}`}>
        ${stages.map(([name, seconds]) => html`<span class=${`stage ${name}`} style=${{ flexGrow: seconds / whole }}></span>`)}</div>
      <ul class="stage-words">${stages.map(([name, seconds]) => html`<li><span class=${`stage ${name}`}></span>${WORDS[name]} <b>${number(seconds * 1000)} ms</b> <span class="quiet">${percent(seconds / whole)}</span></li>`)}</ul>`}
    <dl>
      ${known(predicted) && html`<dt>Predicted</dt><dd>${speed(predicted, history.predicted_size)}<span class="quiet"> alone, from earlier runs of its kind, before it first started</span></dd>`}
      <dt>Observed</dt><dd>${known(observed) ? speed(observed, history.observed_size) : "not known"}</dd>
    </dl>
  </section>`;
}
