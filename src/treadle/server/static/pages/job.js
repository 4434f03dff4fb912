// Job: one job's life, speed, output and reasons.

import { get } from "../api.js";
import { DeviceBars } from "../parts/device-bars.js";
import { useAgain } from "../parts/again.js";
import { asked, devices, moment, number, range, span, typed } from "../parts/format.js";
import { Curves } from "../parts/job-curves.js";
import { JobLink, Name, Owner, Swatch } from "../parts/job-name.js";
import { OrderButtons } from "../parts/job-orders.js";
import { Learned, Sweep } from "../parts/job-learned.js";
import { Profile } from "../parts/job-profile.js";
import { Failure, Reasons } from "../parts/job-reasons.js";
import { Progress } from "../parts/job-row.js";
import { useJobSpells } from "../parts/job-spells.js";
import { JobState } from "../parts/job-state.js";
import { Timeline } from "../parts/job-timeline.js";
import { LogView } from "../parts/log-view.js";
import { visible } from "../parts/safe-text.js";
import { SubmitAgain } from "../parts/submit-again.js";
import { Table } from "../parts/table.js";
import { addJobs, ended, now, state, useNow, useTopic } from "../state.js";
import { html, useState } from "../vendor/preact-htm.js";

const HISTORY_AGAIN_MS = 10000;

export default function JobPage({ args }) {
  const [id] = args;
  useTopic(`job:${id}`);
  const live = state.jobs.get(id);
  // What the stream does not carry is read again when this changes.
  const turn = live ? `${live.state} ${live.attempts} ${live.devices.join()} ${live.resizes}` : "";
  const { detail, history, problem } = useRecord(id, turn, live && !ended(live));
  const known = live ?? detail?.job;
  const from_at = known?.started_at ?? known?.submitted_at;
  const to_at = known?.ended_at ?? now();
  const beside = known?.beside.join() ?? "";
  const spells = useJobSpells(id, { from_at, to_at, turn: `${turn} ${beside}`, started: Boolean(known?.started_at) });
  if (problem && !detail) return html`<p class="empty">${problem} <a href="#/jobs">All jobs</a></p>`;
  if (!detail) return html`<div class="waiting" role="status">Reading job ${visible(id)}…</div>`;
  const job = known;
  const failed = detail.attempts.findLast((attempt) => attempt.failure);
  return html`<div class="job-page">
    <div class="job-title">
      <h1><${Swatch} id=${job.id} />${visible(job.id)} <${Name} text=${job.name} /></h1>
      <${JobState} state=${job.state} />
      <span class="quiet grow"><${Owner} ...${job} /></span>
      <div class="row"><${OrderButtons} ids=${ended(job) ? [] : [job.id]} /></div>
    </div>
    <${Facts} job=${job} detail=${detail} />
    <div class="two">
      <div class="column">
        <${Failure} failure=${detail.failure} attempt=${failed} />
        ${!(ended(job) && detail.failure) && html`<${Reasons} id=${id} turn=${turn} active=${!ended(job)} waiting=${job.state === "PENDING" || job.state === "HELD"} />`}
        <${Timeline} id=${id} company=${spells.company} />
        <${Learned} script=${detail.script} turn=${job.ended_at} />
        <${SubmitAgain} again=${detail.again} />
      </div>
      <div class="column">
        ${job.attempts > 0 && html`<${LogView} job=${id} attempts=${job.attempts} ended=${ended(job)} />`}
        <${DeviceBars} id=${id} spells=${spells.own} from_at=${from_at} to_at=${to_at} cut=${spells.cut} />
        ${history && html`<${Profile} history=${history} now_per_s=${job.devices.length ? job.progress?.per_s : null} />`}
        ${history && job.started_at && html`<${Curves} history=${history} from_at=${from_at} to_at=${to_at} />`}
        <${Company} attempts=${detail.attempts} />
      </div>
    </div>
    <${Sweep} job=${job} />
  </div>`;
}

function Facts({ job, detail }) {
  const at = useNow();
  const running = job.started_at && !job.ended_at;
  const last = ended(job) && detail.attempts.findLast((attempt) => attempt.devices.length)?.devices;
  const held = last || job.devices;
  const facts = [
    ["Devices", held.length ? html`${last ? "had " : ""}${held.length} of ${asked(job.sizes)} <span class="quiet">${visible(devices(held))}</span>` : `${ended(job) ? "had none, asked" : "asks"} for ${asked(job.sizes)}`],
    job.beside.length && ["Beside", job.beside.map((each) => html`<${JobLink} id=${each} /> `)],
    job.plan && ["Plan", html`<code>${visible(job.plan)}</code>`],
    job.progress && ["Progress", html`<${Progress} job=${job} />`],
    job.progress?.per_s && ["Speed", `${number(job.progress.per_s)} steps a second`],
    job.end?.known && ["Ends in", html`<span title=${visible(job.end.because)}>${range(job.end.low_s, job.end.high_s)}</span>`],
    ["Submitted", moment(job.submitted_at)],
    job.started_at && ["Waited", span(job.started_at - job.submitted_at)],
    job.preempted_at && ["Preempted", html`${span(at - job.preempted_at)} ago${job.preempted_for && html` for <${JobLink} id=${job.preempted_for} />`}`],
    running ? ["Since its start", span(at - job.started_at)] : job.running_s > 0 && ["Ran", span(job.running_s)],
    job.ended_at && ["Ended", html`${moment(job.ended_at)}${job.code !== null && html` <span class="quiet">exit status ${job.code}</span>`}`],
    job.attempts > 1 && ["Attempts", job.attempts],
    job.resizes > 0 && ["Resizes", job.resizes],
    job.priority !== 0 && ["Priority", job.priority],
    detail.alone_because && ["Runs alone", visible(detail.alone_because)],
    ["Command", html`<code>${visible(typed(job.command))}</code>`],
  ];
  return html`<dl class="job-facts card">${facts.filter(Boolean).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** With whom it shared for a second or longer, and what that cost. */
function Company({ attempts }) {
  const spells = attempts.flatMap((attempt) => attempt.company.map((each) => ({ ...each, attempt: attempt.number }))).filter((each) => each.seconds >= 1);
  if (!spells.length) return null;
  return html`<section class="card" aria-label="Sharing"><h2>Shared its devices</h2><${Table} label="Sharing" heads=${["Attempt", "With", "#For", "#Speed, of that alone"]}>
    ${spells.map((each) => html`<tr><td>${each.attempt}</td><td>${each.jobs.map((job) => html`<${JobLink} id=${job} /> `)}</td>
      <td class="number">${span(each.seconds)}</td><td class="number">${each.relative === null ? html`<span class="quiet">not measured</span>` : each.relative.toFixed(2)}</td></tr>`)}<//></section>`;
}

/** The job's full record and its measurements, read again while it runs. */
function useRecord(id, turn, active) {
  const [record, setRecord] = useState({ detail: null, history: null, problem: "" });
  const path = `/jobs/${encodeURIComponent(id)}`;
  const read = async (isWanted) => {
    try {
      const [detail, history] = await Promise.all([get(path), get(`${path}/history`)]);
      if (!isWanted()) return;
      setRecord({ detail, history, problem: "" });
      addJobs([detail.job]);
    } catch (error) {
      if (isWanted()) setRecord((before) => ({ ...before, problem: error.sentence ?? String(error) }));
    }
  };
  useAgain(read, active ? HISTORY_AGAIN_MS : 0, [id, turn, active]);
  return record;
}
