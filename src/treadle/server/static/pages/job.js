// Job: one job's life, speed, output and reasons.

import { get } from "../api.js";
import { DeviceBars } from "../parts/device-bars.js";
import { devices, moment, number, range, span } from "../parts/format.js";
import { Curves } from "../parts/job-curves.js";
import { JobLink, Name, Swatch } from "../parts/job-name.js";
import { OrderButtons } from "../parts/job-orders.js";
import { Profile } from "../parts/job-profile.js";
import { Failure, Reasons } from "../parts/job-reasons.js";
import { Progress } from "../parts/job-row.js";
import { useJobSpells } from "../parts/job-spells.js";
import { JobState } from "../parts/job-state.js";
import { Timeline } from "../parts/job-timeline.js";
import { LogView } from "../parts/log-view.js";
import { visible } from "../parts/safe-text.js";
import { SubmitAgain } from "../parts/submit-again.js";
import { addJobs, ended, now, state, useNow, useTopic } from "../state.js";
import { html, useEffect, useState } from "../vendor/preact-htm.js";

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
      <span class="quiet grow"><${Name} text=${job.user} />${job.tenant && html` · <${Name} text=${job.tenant} />`}</span>
      <div class="row"><${OrderButtons} ids=${ended(job) ? [] : [job.id]} /></div>
    </div>
    <${Facts} job=${job} detail=${detail} />
    <div class="two">
      <div class="column">
        <${Failure} failure=${detail.failure} attempt=${failed} />
        ${!(ended(job) && detail.failure) && html`<${Reasons} id=${id} turn=${turn} waiting=${job.state === "PENDING" || job.state === "HELD"} />`}
        <${Timeline} id=${id} company=${spells.company} />
        <${SubmitAgain} again=${detail.again} />
      </div>
      <div class="column">
        ${job.attempts > 0 && html`<${LogView} key=${id} job=${id} attempts=${job.attempts} ended=${ended(job)} />`}
        <${DeviceBars} id=${id} spells=${spells.own} from_at=${from_at} to_at=${to_at} cut=${spells.cut} />
        ${history && html`<${Profile} history=${history} />`}
        ${history && job.started_at && html`<${Curves} history=${history} from_at=${from_at} to_at=${to_at} />`}
        <${Company} attempts=${detail.attempts} />
      </div>
    </div>
  </div>`;
}

function Facts({ job, detail }) {
  const at = useNow();
  const running = job.started_at && !job.ended_at;
  const asked = job.sizes.length > 1 ? `${job.sizes[0]} to ${job.sizes.at(-1)}` : job.sizes[0];
  const facts = [
    ["Devices", job.devices.length ? html`${job.devices.length} of ${asked} <span class="quiet">${visible(devices(job.devices))}</span>` : `asks for ${asked}`],
    job.beside.length && ["Beside", job.beside.map((each) => html`<${JobLink} id=${each} /> `)],
    job.plan && ["Plan", html`<code>${visible(job.plan)}</code>`],
    job.progress && ["Progress", html`<${Progress} job=${job} />`],
    job.progress?.per_s && ["Speed", `${number(job.progress.per_s)} steps a second`],
    job.end?.known && ["Ends in", html`<span title=${visible(job.end.because)}>${range(job.end.low_s, job.end.high_s)}</span>`],
    ["Submitted", moment(job.submitted_at)],
    job.started_at && ["Waited", span(job.started_at - job.submitted_at)],
    running ? ["Since its start", span(at - job.started_at)] : job.running_s > 0 && ["Ran", span(job.running_s)],
    job.ended_at && ["Ended", html`${moment(job.ended_at)}${job.code !== null && html` <span class="quiet">exit status ${job.code}</span>`}`],
    job.attempts > 1 && ["Attempts", job.attempts],
    job.resizes > 0 && ["Resizes", job.resizes],
    job.priority !== 0 && ["Priority", job.priority],
    detail.alone_because && ["Runs alone", visible(detail.alone_because)],
    ["Command", html`<code>${visible(job.command.join(" "))}</code>`],
  ];
  return html`<dl class="job-facts card">${facts.filter(Boolean).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** With whom it shared for a second or longer, and what that cost. */
function Company({ attempts }) {
  const spells = attempts.flatMap((attempt) => attempt.company.map((each) => ({ ...each, attempt: attempt.number }))).filter((each) => each.seconds >= 1);
  if (!spells.length) return null;
  return html`<section class="card" aria-label="Company"><h2>Shared its devices</h2><table>
    <thead><tr><th scope="col">Attempt</th><th scope="col">With</th><th scope="col" class="number">For</th><th scope="col" class="number">Speed, of that alone</th></tr></thead>
    <tbody>${spells.map((each) => html`<tr><td>${each.attempt}</td><td>${each.jobs.map((job) => html`<${JobLink} id=${job} /> `)}</td>
      <td class="number">${span(each.seconds)}</td><td class="number">${each.relative === null ? html`<span class="quiet">not measured</span>` : each.relative.toFixed(2)}</td></tr>`)}</tbody>
  </table></section>`;
}

/** The job's full record and its measurements, read again while it runs. */
function useRecord(id, turn, active) {
  const [record, setRecord] = useState({ detail: null, history: null, problem: "" });
  useEffect(() => setRecord({ detail: null, history: null, problem: "" }), [id]);
  useEffect(() => {
    let wanted = true;
    const path = `/jobs/${encodeURIComponent(id)}`;
    const read = async () => {
      try {
        const [detail, history] = await Promise.all([get(path), get(`${path}/history`)]);
        if (!wanted) return;
        setRecord({ detail, history, problem: "" });
        addJobs([detail.job]);
      } catch (error) {
        if (wanted) setRecord((before) => ({ ...before, problem: error.sentence ?? String(error) }));
      }
    };
    read();
    const timer = active ? setInterval(() => !document.hidden && read(), HISTORY_AGAIN_MS) : 0;
    return () => {
      wanted = false;
      clearInterval(timer);
    };
  }, [id, turn, active]);
  return record;
}
