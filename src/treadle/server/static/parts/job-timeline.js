// The life of a job: its events in order, each with what it was about.

import { get } from "../api.js";
import { addDecisions, state, useTopic } from "../state.js";
import { html, useEffect, useMemo, useState } from "../vendor/preact-htm.js";
import { iso, moment, span } from "./format.js";
import { visible } from "./safe-text.js";

const READ_MAX = 1000; // from either end
const SHOWN_FIRST = 60;
// The scheduler's own bookkeeping, and progress: the curves show it.
const LEFT_OUT = new Set(["JobProgressed", "JobUpdated", "JobAccepted"]);
const ACTIONS = new Set(["Start", "Change", "Stop"]);
const KINDS = [
  [/Submitted|Released/, "queued"],
  [/Held|Paused/, "held"],
  [/Started|^Start$|Resumed/, "started"],
  [/Resiz|Replan|Change|Joined|Left/, "changed"],
  [/Fail|Lost|Crash|Timeout/, "failed"],
  [/Finished|Succeeded|Completed/, "good"],
  [/AttemptEnded/, "ended"],
];

/** `company`: joins and leaves of other jobs, in the shape of events. */
export function Timeline({ id, company }) {
  useTopic("events", "decisions");
  const [read, setRead] = useState({ events: [], gap: false, problem: "" });
  const [all, setAll] = useState(false);
  useEffect(() => {
    let wanted = true;
    get("/decisions", { limit: 500 }).then((page) => addDecisions(page.decisions), () => {});
    readEvents(id).then(
      (found) => wanted && setRead(found),
      (error) => wanted && setRead({ events: [], gap: false, problem: error.sentence ?? String(error) }),
    );
    return () => (wanted = false);
  }, [id]);
  const events = useMemo(() => {
    const known = new Map(read.events.map((event) => [event.id, event]));
    for (const event of state.events) if (event.job === id) known.set(event.id, event);
    const kept = [...known.values()].filter((event) => !LEFT_OUT.has(event.kind)).sort((a, b) => a.id - b.id);
    return [...kept, ...company].sort((a, b) => a.at - b.at);
  }, [read, state.version.events, id, company]);
  // By the id of the order, which the decision and the event of the order both have.
  const reasons = useMemo(() => new Map(state.decisions.flatMap(({ changes }) => changes
    .filter((change) => change.job === id).map(({ order, because }) => [order, because]))), [state.version.decisions, id]);
  const shown = all ? events : events.slice(-SHOWN_FIRST);
  return html`<section class="card timeline" aria-label="Timeline">
    <h2>Timeline</h2>
    ${read.problem && html`<p class="problem">${read.problem}</p>`}
    ${read.gap && html`<p class="quiet small">The job has more events than are read at once; some in the middle are left out.</p>`}
    ${shown.length < events.length && html`<button onClick=${() => setAll(true)}>Show ${events.length - shown.length} earlier ones</button>`}
    <ol>${shown.map((event, index) => html`<${Entry} key=${event.id} event=${event} before=${shown[index - 1]} because=${ACTIONS.has(event.kind) && reasons.get(event.body.id)} />`)}</ol>
  </section>`;
}

function Entry({ event, before, because }) {
  const what = event.kind === "AttemptEnded" ? `${event.kind} ${endOf(event.body)}` : event.kind;
  const kind = KINDS.find(([test]) => test.test(what))?.[1] ?? "other";
  const pause = before ? event.at - before.at : 0;
  return html`<li class=${kind} title=${visible(event.kind)}>
    <time datetime=${iso(event.at)}>${moment(event.at)}</time>
    <span>${visible(event.text || event.kind)}${because && html`<span class="quiet">: ${visible(because)}</span>`}</span>
    ${pause >= 1 && html`<span class="quiet small">${span(pause)} later</span>`}
  </li>`;
}

const endOf = ({ how, code, node_lost: lost }) => {
  if (how === "exited" && code === 0) return "Finished";
  return lost || ["stopped", "machine-error", "replaced", "time-limit"].includes(how) ? "" : "Failed";
};

async function readEvents(id) {
  const first = await get("/events", { job: id, limit: READ_MAX });
  if (first.events.length < READ_MAX) return { events: first.events, gap: false, problem: "" };
  const last = await get("/events", { job: id, limit: READ_MAX, last: true });
  const gap = last.events[0].id > first.events.at(-1).id;
  return { events: [...first.events, ...last.events], gap, problem: "" };
}
