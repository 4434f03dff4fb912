// What is known of a job's script from its runs, and the jobs of a sweep beside one another.

import { get } from "../api.js";
import { addJobs, ended, state, useTopic } from "../state.js";
import { html, useState } from "../vendor/preact-htm.js";
import { useAgain } from "./again.js";
import { gib, number, percent, range, span } from "./format.js";
import { JobLink } from "./job-name.js";
import { JobState } from "./job-state.js";
import { visible } from "./safe-text.js";
import { Table } from "./table.js";
import { toastProblem } from "./toast.js";

const MEMBERS_MAX = 200;
const FIGURES = { length: "length", step: "a step", memory: "GPU memory" };

/** `script`: the id by which what was learned of it is asked for; nothing is shown until there is some. */
export function Learned({ script, turn }) {
  const [known, setKnown] = useState(null);
  const read = async (isWanted) => {
    const page = await get("/learned", { script });
    if (isWanted()) setKnown(page.scripts[0] ?? null);
  };
  useAgain((isWanted) => read(isWanted).catch(toastProblem), 0, [script, turn]);
  if (!known) return null;
  const { length_s: length, memory_gib: memory, busy } = known;
  return html`<section class="card" aria-label="Learned">
    <h2>Known of <bdi>${visible(known.script)}</bdi></h2>
    <p class="quiet">From ${number(known.runs)} runs alone on their devices${known.cut_off > 0 && ` and ${known.cut_off} that were cut off`}.</p>
    <dl>
      ${length && html`<dt>Length</dt><dd>${range(length.least, length.most)}</dd>`}
      ${memory && html`<dt>GPU memory</dt><dd>${gib(memory.most)}</dd>`}
      ${busy?.most >= 0.005 && html`<dt>Busy</dt><dd>${percent(busy.middle)}</dd>`}
      ${known.restart_s !== null && html`<dt>Restart</dt><dd>${span(known.restart_s)}</dd>`}
      ${known.suspend_s !== null && html`<dt>Suspended in</dt><dd>${span(known.suspend_s)}</dd>`}
      ${known.arguments.filter((each) => each.effects.length).map((each) => html`<dt key=${each.name}><code>${visible(each.name)}</code></dt><dd>${each.effects.map(effect).join("; ")}</dd>`)}
    </dl>
  </section>`;
}

function effect({ figure, slope, factors }) {
  if (figure === "steps") return "says how many steps there are";
  if (slope !== null) return `${FIGURES[figure]} ×${number(2 ** slope)} if doubled`;
  const values = Object.entries(factors ?? {}).sort(([, one], [, other]) => one - other);
  return values.length ? `${FIGURES[figure]} ${values.map(([value, times]) => `×${number(times)} for ${visible(value) || "none"}`).join(", ")}` : `${FIGURES[figure]} differs`;
}

/** The members of its array, or its user's jobs of its name: by what differs in what they are given. */
export function Sweep({ job }) {
  useTopic("jobs");
  const [given, setGiven] = useState({});
  const read = async (isWanted) => {
    const which = job.array ? { array: job.array } : { name: job.name, user: job.user };
    const page = await get("/jobs", { ...which, ended: true, limit: MEMBERS_MAX });
    if (!isWanted()) return;
    setGiven(Object.fromEntries(page.jobs.map((each) => [each.id, each.arguments])));
    addJobs(page.jobs);
  };
  useAgain((isWanted) => read(isWanted).catch(toastProblem), 0, [job.array, job.name, job.user]);
  const all = [...state.jobs.values()].filter((each) => (job.array ? each.array === job.array : !each.array && each.name === job.name && each.user === job.user));
  if (all.length < 2) return null;
  const own = (each) => given[each.id] ?? {};
  const differ = [...new Set(all.flatMap((each) => Object.keys(own(each))))].filter((name) => new Set(all.map((each) => own(each)[name])).size > 1);
  if (!job.array && !differ.length) return null;
  const members = all.sort((one, other) => one.submitted_at - other.submitted_at || (one.index ?? 0) - (other.index ?? 0)).slice(0, MEMBERS_MAX);
  return html`<section class="card sweep" aria-label="Sweep"><h2>Sweep</h2><${Table} label="Sweep" heads=${["Job", ...differ.map(visible), "State", "#Loss", "#Steps a second", "#Done", "Ends in"]}>
    ${members.map((each) => html`<tr key=${each.id} aria-current=${each.id === job.id ? "true" : undefined}><td><${JobLink} id=${each.id} name="" /></td>
      ${differ.map((name) => html`<td key=${name}><code>${visible(own(each)[name] ?? "")}</code></td>`)}
      <td><${JobState} state=${each.state} /></td><td class="number">${number(each.progress?.loss)}</td><td class="number">${number(each.progress?.per_s)}</td>
      <td class="number">${each.progress?.total ? percent(Math.min(1, each.progress.step / each.progress.total)) : ""}</td>
      <td>${!ended(each) && each.end?.known ? range(each.end.low_s, each.end.high_s) : ""}</td></tr>`)}<//></section>`;
}
