// Why a job waits, runs or failed, with the evidence.

import { get } from "../api.js";
import { html, useState } from "../vendor/preact-htm.js";
import { useAgain } from "./again.js";
import { asked, count, range } from "./format.js";
import { sentence, visible } from "./safe-text.js";

const AGAIN_MS = 10000;
const STARTS = { preempted: "Resumes in", paused: "Goes on in" };

/** `turn` changes when the job's state does; until it has ended it is asked again now and then. */
export function Reasons({ id, turn, waiting, active }) {
  const [why, setWhy] = useState(null);
  const read = (isWanted) => get(`/jobs/${encodeURIComponent(id)}/why`).then((found) => isWanted() && setWhy(found), () => {});
  useAgain(read, active ? AGAIN_MS : 0, [id, turn, active]);
  if (!why) return null;
  const { estimate } = why;
  const [first, last] = estimate?.orders ?? [estimate?.order, estimate?.order];
  const starts = STARTS[why.code] ?? "Starts in";
  const when = estimate && (range(estimate.earliest_s, estimate.latest_s) || "unknown");
  if (!why.sentence && !why.details.length) return null;
  return html`<section class="card reasons ${why.never ? "never" : ""}" aria-label="Why">
    <h2>${waiting ? "Why it waits" : "Why"}</h2>
    <p class="because" data-code=${why.code}>${sentence(why.sentence)}</p>
    <dl>
      ${why.details.map(([label, text]) => html`<dt key=${label}>${capital(label)}</dt><dd>${visible(text)}</dd>`)}
      ${why.change && html`<dt>What would help</dt><dd>${visible(why.change)}</dd>`}
      ${why.position && html`<dt>Place</dt><dd>${why.position} of ${count(why.waiting, "waiting job")}${first && (first !== why.position || last !== first) && `, ${asked([...new Set([first, last])])} in the order of starts`}</dd>`}
      ${estimate && html`<dt>${starts}</dt><dd>${when}${why.freed_by.length > 0 && `, when ${visible(why.freed_by.join(", "))} ${why.freed_by.length > 1 ? "end" : "ends"}`}${doubt(estimate)}<span class="quiet"> · ${visible(estimate.sentence)}</span></dd>`}
      ${waiting && why.length?.known && html`<dt>Takes</dt><dd>${range(why.length.low_s, why.length.high_s)}${doubt(why.length)}<span class="quiet"> · ${visible(why.length.because)}</span></dd>`}
    </dl>
  </section>`;
}

const capital = (text) => visible(text.slice(0, 1).toUpperCase() + text.slice(1));

const doubt = ({ coverage }) => (coverage ? ` (${Math.round(coverage * 10)} of 10 such ranges hold)` : "");

export function Failure({ failure, attempt }) {
  if (!failure) return null;
  return html`<section class="card failure" aria-label="Failure">
    <h2>Why it failed <span class="tag">${visible(failure.kind)}</span></h2>
    <p class="because">${visible(failure.sentence)}</p>
    ${failure.evidence && html`<pre>${failure.evidence.split("\n").map(visible).join("\n")}</pre>`}
    <dl><dt>Advice</dt><dd>${visible(failure.advice)}</dd><dt>Rule</dt><dd><code>${visible(failure.rule)}</code></dd>
      ${attempt && html`<dt>Attempt</dt><dd>${attempt.number}${attempt.code === null ? "" : `, exit status ${attempt.code}`}${failure.retried ? ", retried" : ""}</dd>`}</dl>
  </section>`;
}
