// Go back in time: a slider over how full the cluster was, and the moment in words.

import { now } from "../state.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.js";
import { moment, span } from "./format.js";
import { occupancy, readSpells } from "./spells.js";
import { toastProblem } from "./toast.js";

const WINDOWS = [
  [600, "10 min"],
  [3600, "1 h"],
  [6 * 3600, "6 h"],
  [24 * 3600, "24 h"],
  [7 * 86400, "7 d"],
];
const FRESH_MS = 30000;
const STEPS = 1000;

/** `at` is null while the page is live; `onMove(at, page)` is given the moment and its spells. */
export function Scrubber({ at, onMove }) {
  const [length_s, setLength] = useState(3600);
  const [page, setPage] = useState(null);
  const [problem, setProblem] = useState("");
  const newest = useRef(0);
  const chosen = useRef(0);
  useEffect(() => {
    const read = async () => {
      if (document.hidden) return;
      newest.current += 1;
      const mine = newest.current;
      try {
        const until = now();
        const found = await readSpells(until - length_s, until);
        if (mine === newest.current) setPage({ ...found, from_at: until - length_s, until_at: until });
        setProblem("");
      } catch (error) {
        setProblem(error.sentence ?? "");
      }
    };
    read();
    // A picture of the past that is being looked at stands still.
    const timer = at === null ? setInterval(read, FRESH_MS) : 0;
    return () => clearInterval(timer);
  }, [length_s, at === null]);
  if (!page) return html`<section class="scrubber card" aria-label="History"><p class="quiet">${problem || "Reading the history…"}</p></section>`;
  const place = at === null ? STEPS : Math.round(((at - page.from_at) / length_s) * STEPS);
  // The answer for a typed moment comes late: what was chosen since holds.
  const choose = (moment_at, its) => {
    chosen.current += 1;
    onMove(moment_at, its);
  };
  const goTo = async (text) => {
    chosen.current += 1;
    const mine = chosen.current;
    try {
      const [wide, typed_at, its] = await momentOf(text, length_s);
      if (mine !== chosen.current) return;
      setLength(wide);
      onMove(typed_at, its);
    } catch (error) {
      toastProblem(error);
    }
  };
  const move = (step) => {
    if (step >= STEPS) return choose(null, null);
    choose(Math.max(page.from_at + (step / STEPS) * length_s, page.since_at), page);
  };
  return html`<section class="scrubber card" aria-label="History">
    <div class="row">
      <h2 class="grow">${at === null ? "Now" : html`At <time>${moment(at)}</time> <span class="quiet">${span(now() - at)} ago</span>`}</h2>
      <label class="row quiet">Go to <input type="datetime-local" step="1" value=${at === null ? "" : local(at)}
        onChange=${(event) => goTo(event.target.value)} /></label>
      <div class="row tight" role="group" aria-label="How far back">
        ${WINDOWS.map(([each, words]) => html`<button aria-pressed=${each === length_s} onClick=${() => setLength(each)}>${words}</button>`)}
      </div>
      <button class=${at === null ? "" : "primary"} disabled=${at === null} onClick=${() => choose(null, null)}>Back to live</button>
    </div>
    <div class="track">
      <${Strip} page=${page} length_s=${length_s} at=${at} />
      <input type="range" min="0" max=${STEPS} value=${place} aria-label="Moment shown"
        aria-valuetext=${at === null ? "now" : moment(at)} onInput=${(event) => move(Number(event.target.value))} />
    </div>
    <div class="row quiet small"><span class="grow">${moment(page.from_at, { seconds: false })}</span>
      ${page.since_at > page.from_at && html`<span>The history begins at ${moment(page.since_at, { seconds: false })}</span>`}
      ${page.cut && html`<span>Only the newest part is shown</span>`}<span>now</span></div>
  </section>`;
}

function Strip({ page, length_s, at }) {
  const path = useMemo(() => area(page, length_s), [page, length_s]);
  const x = at === null ? null : ((at - page.from_at) / length_s) * 1000;
  return html`<svg viewBox="0 0 1000 40" preserveAspectRatio="none" aria-hidden="true">
    <path d=${path} />${x !== null && html`<line x1=${x} x2=${x} y1="0" y2="40" />`}
  </svg>`;
}

function area(page, length_s) {
  const devices = Math.max(1, page.nodes.reduce((sum, node) => sum + (node.to_at === null ? node.devices : 0), 0));
  const x = (at) => Math.min(1000, Math.max(0, ((at - page.from_at) / length_s) * 1000)).toFixed(1);
  const y = (held) => (40 - Math.min(1, held / devices) * 38).toFixed(1);
  let path = `M${x(page.from_at)} 40`;
  let held = 0;
  for (const [at, next] of occupancy(page)) {
    if (at > page.from_at) path += `L${x(at)} ${y(held)}L${x(at)} ${y(next)}`;
    else path = `M0 40L0 ${y(next)}`;
    held = next;
  }
  return `${path}L1000 ${y(held)}L1000 40Z`;
}

/** A moment that was typed, with its spells; the window grows until it holds it. */
async function momentOf(text, length_s) {
  const at = new Date(text).getTime() / 1000;
  const until = now();
  if (!isFinite(at) || at >= until) return [length_s, null, null];
  const wide = WINDOWS.find(([each]) => each > until - at)?.[0] ?? WINDOWS.at(-1)[0];
  return [Math.max(wide, length_s), at, await readSpells(Math.min(at - 60, until - length_s), until)];
}

/** As an input of a local date and time wants it. */
function local(at) {
  const when = new Date(at * 1000);
  return new Date(when.getTime() - when.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}
