// Decisions: what the policy changed lately, why, and what it cost.

import { get } from "../api.js";
import { momentFormat, timeTicks, zoneZero } from "../charts/axes.js";
import { LineChart } from "../charts/line.js";
import { count, devices, iso, moment, number } from "../parts/format.js";
import { JobLink } from "../parts/job-name.js";
import { visible } from "../parts/safe-text.js";
import { Card } from "../parts/table.js";
import { addDecisions, state, useTopic } from "../state.js";
import { html, useMemo, useState } from "../vendor/preact-htm.js";
import { useReading } from "./reading.js";

const SHOWN_STEP = 50;
const KEPT_MAX = 500; // by the server, as here
const SIGNS = { start: "▶", stop: "■", grow: "↑", shrink: "↓", move: "→", replan: "⇄", join: "+", leave: "−" };

export default function Decisions({ query }) {
  useTopic("decisions");
  const { value, problem } = useReading(readDecisions, ["link"]);
  const [shown, setShown] = useState(SHOWN_STEP);
  const [job, setJob] = useState(query.job ?? "");
  const newest = useMemo(() => [...state.decisions].reverse(), [state.version.decisions]);
  const wanted = job.trim();
  // Also of jobs that ended before this tab was opened.
  const names = useMemo(() => new Map(state.decisions.flatMap(({ changes }) => changes.map(({ job: id, name }) => [id, name]))), [state.version.decisions]);
  const found = wanted ? newest.filter(({ changes }) => changes.some((each) => each.job === wanted || each.name === wanted)) : newest;
  return html`<div class="heading"><h1>Decisions</h1>
      <span class="quiet">${value && `${count(value.others, "other")} since ${moment(value.since_at)} changed nothing`}</span>
      ${problem && html`<span class="problem" role="status">${problem.sentence}</span>`}</div>
    <div class="decisions">
      <div class="stream">
        ${newest.length > 0 && html`<${Card} name="cpu" title="CPU time of each decision"><${CpuTime} decisions=${state.decisions} /><//>`}
        <div class="row"><label class="row">Only of job <input type="text" class="short" value=${job} onInput=${(event) => setJob(event.target.value)} /></label>
          <span class="quiet" role="status">${wanted ? count(found.length, "decision") : ""}</span></div>
        <ol class="decision-list" reversed>${found.slice(0, shown).map((each) => html`<${DecisionCard} key=${each.id} decision=${each} names=${names} />`)}</ol>
        ${!found.length && value && html`<p class="empty">No decision ${newest.length < KEPT_MAX ? "that is known" : `of the newest ${KEPT_MAX}`} changed anything${wanted ? ` for job ${wanted}` : ""}.</p>`}
        ${found.length > shown && html`<button onClick=${() => setShown(shown + SHOWN_STEP)}>Show ${Math.min(SHOWN_STEP, found.length - shown)} more of ${found.length}</button>`}
      </div>
    </div>`;
}

async function readDecisions(signal) {
  const page = await get("/decisions", { limit: KEPT_MAX }, signal);
  addDecisions(page.decisions);
  return page;
}

function DecisionCard({ decision, names }) {
  const { at, policy, cpu_ms: cpu, events, changes, running, waiting, free, error } = decision;
  return html`<li class="card decision">
    <div class="decision-head"><time datetime=${iso(at)}>${moment(at)}</time><span class="policy-name">${policy}</span>
      <span class="quiet">${number(cpu)} ms CPU</span>
      <span class="quiet after">then ${running} running, ${waiting} waiting, ${free} free</span></div>
    ${events.length > 0 && html`<p class="quiet">${visible(events.slice(0, 6).join("; "))}${events.length > 6 ? ` and ${events.length - 6} more` : ""}</p>`}
    ${error && html`<p class="problem">The policy failed, and nothing was changed: ${visible(error)}</p>`}
    ${changes.length > 0 && html`<ul class="changes">${changes.map((each) => html`<${Change} key=${each.job + each.kind} change=${each} names=${names} />`)}</ul>`}
  </li>`;
}

function Change({ change, names }) {
  const { job, kind, before, after, plan, beside, because } = change;
  const where = [before.length ? devices(before) : "", after.length ? devices(after) : ""];
  const places = where[0] && where[1] && where[0] !== where[1] ? `${where[0]} → ${where[1]}` : where[1] || where[0];
  const size = before.length && after.length && before.length !== after.length ? ` (${before.length} → ${after.length})` : "";
  return html`<li class="change ${kind}"><span class="kind"><i aria-hidden="true">${SIGNS[kind] ?? "·"}</i>${kind}</span>
    <span class="what"><${JobLink} id=${job} name=${change.name} /> <span class="mono places">${visible(places)}${size}</span>
      ${plan && html`<span class="quiet">plan ${visible(plan)}</span>`}
      ${beside.length > 0 && html`<span class="beside">beside ${beside.map((id) => html`<${JobLink} id=${id} key=${id} name=${names.get(id)} /> `)}</span>`}
      ${because && html`<span class="quiet because">${visible(because)}</span>`}</span></li>`;
}

function CpuTime({ decisions }) {
  const series = useMemo(() => [{
    name: "CPU time", colour: "--accent", xs: decisions.map(({ at }) => at), ys: decisions.map(({ cpu_ms: cpu }) => cpu),
    rest: `mean ${number(decisions.reduce((sum, each) => sum + each.cpu_ms, 0) / decisions.length)} ms`,
  }], [decisions]);
  const [from, to] = [decisions[0].at, decisions.at(-1).at];
  const margin = Math.max((to - from) * 0.01, 0.5);
  return html`<${LineChart} label="CPU time of each decision, in milliseconds" series=${series} height=${120} at=${(x) => moment(x)}
    x=${{ from: from - margin, to: to + margin, format: momentFormat, ticks: (low, high, most) => timeTicks(low, high, most, zoneZero(low)) }}
    y=${{ format: (value) => `${number(value)} ms` }} />`;
}
