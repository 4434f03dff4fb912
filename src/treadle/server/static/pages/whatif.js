// What if: the present queue under another policy, on other machines or without some jobs, beside
// what happens as things are. Also opens journals, reports and saved answers from disk.

import { get, post } from "../api.js";
import { broken } from "../charts/line.js";
import { columnsOf, sizeOf } from "../charts/spells.js";
import { cssColour } from "../charts/theme.js";
import { Gantt, TimeControls, clamped } from "../charts/gantt.js";
import { lookOf } from "../parts/colour.js";
import { download } from "../parts/download.js";
import { count, moment, span } from "../parts/format.js";
import { JobLink, JobOptions, Name } from "../parts/job-name.js";
import { visible } from "../parts/safe-text.js";
import { Card, Table } from "../parts/table.js";
import { state, useTopic } from "../state.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.js";
import { opened } from "./journal.js";
import { useReading } from "./reading.js";
import { NOT_SIMULATED, Notes, Report } from "./report.js";

const ROWS_MAX = 200;

export default function WhatIf() {
  const [asked, setAsked] = useState({ policy: "", cluster: "", without: "" });
  const [found, setFound] = useState(null); // { answer }, { journal }, { report }, { problem } or { isRunning }
  const asks = useRef(0);
  // A late answer does not replace a file that was opened meanwhile.
  const begun = () => {
    asks.current += 1;
    const mine = asks.current;
    return (value) => mine === asks.current && setFound(value);
  };
  const run = async (event) => {
    event.preventDefault();
    const show = begun();
    show({ isRunning: true, since_ms: Date.now() });
    const body = { policy: asked.policy.trim(), cluster: asked.cluster.trim(), without: asked.without.split(/[\s,]+/).filter(Boolean) };
    try {
      show({ answer: await post("/what-if", body) });
    } catch (problem) {
      show({ problem: problem.sentence ?? problem.message });
    }
  };
  const open = async (file) => {
    if (!file) return;
    const show = begun();
    try {
      show({ ...(await opened(file)), file: file.name });
    } catch (problem) {
      show({ problem: problem.message });
    }
  };
  return html`<div class="heading"><h1>What if</h1><span class="quiet">Simulated from the present queue; nothing is changed.</span></div>
    <${Form} asked=${asked} setAsked=${setAsked} onRun=${run} onOpen=${open} isRunning=${found?.isRunning} />
    <div role="status">${found?.isRunning && html`<${Running} since_ms=${found.since_ms} />`}
      ${found?.problem && html`<p class="card problem">${found.problem}</p>`}</div>
    ${found?.answer && html`<${Answer} answer=${found.answer} file=${found.file} />`}
    ${found?.report && html`<${Report} report=${found.report} file=${found.file} />`}
    ${found?.journal && html`<${Journal} journal=${found.journal} file=${found.file} />`}`;
}

function Form({ asked, setAsked, onRun, onOpen, isRunning }) {
  useTopic("status", "jobs");
  const input = useRef();
  const { value: policy } = useReading((signal) => get("/policy", {}, signal), []);
  const field = (name) => ({ value: asked[name], onInput: (event) => setAsked({ ...asked, [name]: event.target.value }) });
  const isViewer = state.session?.role === "viewer";
  return html`<form class="card what-if-form" onSubmit=${onRun}>
    <label>Policy <input type="text" list="policies" placeholder=${state.status?.policy ?? "as it is"} ...${field("policy")} /></label>
    <datalist id="policies">${(policy?.offered ?? []).map((name) => html`<option value=${name} key=${name} />`)}</datalist>
    <label>Machines <input type="text" placeholder="as they are, or 2x8" ...${field("cluster")} /></label>
    <label class="grow">Without jobs <input type="text" placeholder="none, or ids: 12, 15" list="what-if-jobs" ...${field("without")} /></label>
    <${JobOptions} id="what-if-jobs" />
    <button class="primary" disabled=${isRunning || isViewer} title=${isViewer ? "Viewers may not run simulations" : undefined}>Simulate</button>
    <input type="file" hidden ref=${input} accept=".json,.jsonl,.txt,.journal"
      onChange=${(event) => { onOpen(event.target.files[0]); event.target.value = ""; }} />
    <button type="button" onClick=${() => input.current.click()} title="A journal, a report or an answer of this page; it is read in the browser and not sent">Open a file…</button>
  </form>`;
}

function Running({ since_ms: since }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return html`<div class="card running"><progress aria-label="Simulating"></progress> Simulating both, for ${Math.max(0, Math.round((now - since) / 1000))} s…</div>`;
}

// -- the answer --

const NUMBERS = [["mean_completion_s", "Mean completion"], ["p90_completion_s", "p90 completion"], ["makespan_s", "All done after"]];

function Answer({ answer, file }) {
  const { now, then, jobs, notes } = answer;
  return html`<section class="card" aria-labelledby="outcome-title"><div class="row"><h2 id="outcome-title" class="grow">
      ${file ? html`From <bdi>${file}</bdi>: the` : "The"} queue of ${moment(answer.at)}</h2>
      ${!file && html`<button class="plain" onClick=${() => save(answer)}>Save as a file</button>`}</div>
      <div class="outcomes">${NUMBERS.map(([key, title]) => html`<${Compared} key=${key} title=${title} now=${now[key]} then=${then[key]} />`)}</div>
      <${Table} label="Both simulations" class="outcome-names" heads=${["", "Policy", "Machines", "#Jobs", "#Ended"]}>
        ${[["as it is", now], ["what if", then]].map(([name, each]) => html`<tr key=${name}><th scope="row">${name}</th><td>${broken(each.policy)}</td><td>${each.cluster}</td>
          <td class="number">${each.jobs}</td><td class="number">${each.ended}</td></tr>`)}<//>
      <${Notes} notes=${notes} /></section>
    <${Pair} answer=${answer} />
    <${Card} name="jobs" title="Jobs"><${Jobs} jobs=${jobs} /><//>`;
}

function save(answer) {
  const name = `what-if-${answer.then.policy.replace(/[^\w.-]+/g, "_")}.json`;
  download(new Blob([JSON.stringify(answer)], { type: "application/json" }), name);
}

function Compared({ title, now, then }) {
  const known = now !== null && then !== null;
  const share = known && now > 0 ? then / now : null;
  const isSame = share === null ? now === then : Math.abs(share - 1) < 0.005;
  const word = !known ? "" : isSame ? "the same" : share === null ? "" : `${then < now ? "▼" : "▲"} ${share.toFixed(2)}×, ${span(Math.abs(then - now))} ${then < now ? "sooner" : "later"}`;
  return html`<div class="outcome"><h3>${title}</h3>
    <div class="outcome-value">${then === null ? "not within the simulated time" : span(then)}</div>
    <div class="quiet">as it is: ${now === null ? "not within the simulated time" : span(now)}</div>
    <div class=${known && !isSame ? (then < now ? "good" : "bad") : "quiet"}>${word}</div></div>`;
}

function Jobs({ jobs }) {
  const gain = ({ now_s: now, then_s: then }) => (now === null || then === null ? (now === then ? 0 : Infinity) : Math.abs(then - now));
  const sorted = useMemo(() => [...jobs].sort((one, other) => gain(other) - gain(one)), [jobs]);
  const ends = (value) => (value === null ? html`<span class="quiet">not within it</span>` : span(value));
  return html`<${Table} name="jobs" heads=${["Job", "User", "#Ends in, as it is", "#what if", "#Difference"]}>
    ${sorted.slice(0, ROWS_MAX).map((each) => html`<tr key=${each.job}><th scope="row"><${JobLink} id=${each.job} name=${each.name} /></th><td><${Name} text=${each.user} /></td>
      <td class="number">${ends(each.now_s)}${each.assumed && html`<abbr class="quiet" title="Its length is not known and was assumed">*</abbr>`}</td><td class="number">${ends(each.then_s)}</td>
      <td class="number">${difference(each)}</td></tr>`)}<//>
    ${jobs.some((each) => each.assumed) && html`<p class="quiet small">* Its length is not known and was assumed.</p>`}
    ${jobs.length > ROWS_MAX && html`<p class="quiet small">The ${ROWS_MAX} with the largest difference of ${count(jobs.length, "job")}.</p>`}`;
}

function difference({ now_s: now, then_s: then }) {
  if (now === null || then === null) return "–";
  if (Math.abs(then - now) < 0.5) return html`<span class="quiet">same</span>`;
  return html`<span class=${then < now ? "good" : "bad"}>${then < now ? "▼ " : "▲ "}${span(Math.abs(then - now))}</span>`;
}

// -- devices --

function Pair({ answer }) {
  const spellsOf = (spells) => spells.map(({ job, devices, from_s: from, to_s: to }) => ({ job, devices, from, to }));
  const names = new Map(answer.jobs.map(({ job, name }) => [job, name]));
  const [now, then] = useMemo(() => [columnsOf(spellsOf(answer.spells_now), []), columnsOf(spellsOf(answer.spells_then), [])], [answer]);
  const ends = [...answer.spells_now, ...answer.spells_then].reduce((most, { to_s: to }) => Math.max(most, to), 0);
  const whole = useMemo(() => ({ from: 0, to: ends || 1 }), [answer]);
  const [view, setView] = useState(whole);
  useEffect(() => setView(whole), [whole]);
  const shared = { view, whole, names, onView: (from, to) => setView(clamped(from, to, whole)), onReset: () => setView(whole) };
  return html`<section class="card" aria-labelledby="devices-title"><div class="row"><h2 id="devices-title" class="grow">Devices and their jobs</h2><${TimeControls} ...${shared} /></div>
    <h3 id="now-title">As it is: ${broken(answer.now.policy)}, ${answer.now.cluster}</h3><${Chart} ...${shared} columns=${now} labelledby="now-title" />
    <h3 id="then-title">What if: ${broken(answer.then.policy)}, ${answer.then.cluster}</h3><${Chart} ...${shared} columns=${then} labelledby="then-title" /></section>`;
}

function Chart({ columns, names, ...rest }) {
  const colourOf = useMemo(() => {
    const looks = columns.jobs.map((id) => `--job-${lookOf(id).colour}`);
    return (place) => cssColour(looks[place]);
  }, [columns]);
  if (!columns.rows) return html`<p class="quiet">No job holds a device.</p>`;
  const nameOf = (place) => visible(columns.jobs[place]);
  const describe = (index) => {
    const job = columns.jobs[columns.job[index]];
    const name = names.get(job);
    return [html`<b>job ${visible(job)}</b>`, name ? html` <${Name} text=${name} />` : "",
      ` on ${count(sizeOf(columns, index), "device")}, from ${span(columns.from[index]) || "0 s"} to ${span(columns.to[index])}, ${span(columns.to[index] - columns.from[index])}`];
  };
  return html`<${Gantt} columns=${columns} colourOf=${colourOf} nameOf=${nameOf} describe=${describe} ...${rest} />`;
}

function Journal({ journal, file }) {
  const columns = useMemo(() => columnsOf(journal.spells, journal.nodes), [journal]);
  const [view, setView] = useState(journal.whole);
  useEffect(() => setView(journal.whole), [journal]);
  const shared = { view, whole: journal.whole, onView: (from, to) => setView(clamped(from, to, journal.whole)), onReset: () => setView(journal.whole) };
  return html`<section class="card" aria-labelledby="journal-title"><div class="row"><h2 id="journal-title" class="grow"><bdi>${file}</bdi>: ${journal.title}</h2><${TimeControls} ...${shared} /></div>
    <p class="quiet">${count(columns.jobs.length, "job")} in ${count(journal.spells.length, "spell")} on ${count(columns.rows, "device")}, over ${span(journal.whole.to)}. ${NOT_SIMULATED}</p>
    <${Chart} ...${shared} columns=${columns} names=${journal.jobs} labelledby="journal-title" /></section>`;
}
