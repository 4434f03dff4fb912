// Files from disk, read in the browser: a journal, a report, or an answer that this page saved.
//
// Nothing is sent to the server. A journal is one JSON object a line (`treadle journal -o FILE`);
// of it the chart needs the actions and what ended them.

import { layout } from "../charts/spells.js";
import { reportOf } from "./report.js";

const ENDS = new Set(["JobFinished", "JobFailed", "JobCancelled", "JobStopped", "AttemptEnded"]);
const BYTES_MAX = 200 * 2 ** 20;
const DEVICES_MAX = 10000;
const TIME_MAX_S = 1e11;

/** { journal: { spells, nodes, jobs, whole, title } }, { report } or { answer }; else it throws. */
export async function opened(file) {
  if (file.size > BYTES_MAX) throw new Error(`${file.name} has more than ${BYTES_MAX / 2 ** 20} MiB; analyze it with treadle analyze`);
  const text = await file.text();
  const first = parsed(text.slice(0, text.indexOf("\n") < 0 ? undefined : text.indexOf("\n")));
  if (first?.kind === "Opened") {
    const journal = journalRead(text, first, file.name);
    check(file.name, [...journal.spells, { devices: [], ...journal.whole }], journal.nodes);
    return { journal };
  }
  const whole = first && text.trimEnd().indexOf("\n") < 0 ? first : parsed(text);
  if (isAnswer(whole)) {
    for (const spells of [whole.spells_now, whole.spells_then]) check(file.name, spells.map(({ devices, from_s: from, to_s: to }) => ({ devices, from, to })), []);
    return { answer: whole };
  }
  const report = whole && reportOf(whole);
  if (report) return { report };
  if (whole?.cluster && whole?.jobs && whole?.placement) {
    throw new Error(`${file.name} is a snapshot: this page simulates the present queue only; treadle what-if ${file.name} simulates a snapshot in the terminal`);
  }
  throw new Error(`${file.name} is neither a journal (treadle journal -o FILE), nor a report (treadle compare --json), nor an answer that this page saved`);
}

/** Refuses what would take the browser too long to draw. */
function check(name, spells, nodes) {
  const fits = ({ devices, from, to }) => from >= 0 && to >= from && to <= TIME_MAX_S && devices.length <= DEVICES_MAX && devices.every((each) => /:\d{1,5}$/.test(each));
  const rows = () => [...layout(spells, nodes).values()].reduce((sum, [, count]) => sum + count, 0);
  if (!spells.every(fits) || !(rows() <= DEVICES_MAX)) {
    throw new Error(`${name} cannot be drawn: it has more than ${DEVICES_MAX.toLocaleString("en")} devices, a device that is not NODE:NUMBER, or times that are not in order`);
  }
}

/** Whether all is there that the page shows of an answer. */
function isAnswer(found) {
  const texts = (each, ...names) => names.every((name) => typeof each?.[name] === "string");
  const numbers = (each, ...names) => names.every((name) => Number.isFinite(each?.[name]));
  const maybe = (each, ...names) => names.every((name) => each?.[name] === null || numbers(each, name));
  const isOutcome = (each) => texts(each, "policy", "cluster") && numbers(each, "jobs", "ended") && maybe(each, "mean_completion_s", "p90_completion_s", "makespan_s");
  const isSpell = (each) => texts(each, "job") && numbers(each, "from_s", "to_s") && Array.isArray(each.devices) && each.devices.every((name) => texts({ name }, "name"));
  const lists = [[found?.jobs, (each) => texts(each, "job", "name", "user") && maybe(each, "now_s", "then_s")], [found?.notes, (note) => texts({ note }, "note")], [found?.spells_now, isSpell], [found?.spells_then, isSpell]];
  return [found?.now, found?.then].every(isOutcome) && Math.abs(found.at) <= TIME_MAX_S && lists.every(([list, test]) => Array.isArray(list) && list.every(test));
}

function journalRead(text, first, name) {
  try {
    return journalOf(text, first);
  } catch {
    throw new Error(`${name} begins as a journal and cannot be read as one`);
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function journalOf(text, first) {
  const nodes = new Map();
  const join = ({ name, device_count: devices }) => nodes.set(String(name), Number.isInteger(devices) && devices >= 0 ? devices : Infinity);
  first.cluster.nodes.forEach(join);
  const [open, spells, names] = [new Map(), [], new Map()];
  let last = first.at;
  const close = (job, at) => {
    const spell = open.get(job);
    if (spell && at !== spell.from) spells.push({ ...spell, to: at });
    open.delete(job);
  };
  for (const line of text.split("\n")) {
    const fact = line && parsed(line);
    if (!fact?.kind) continue; // The last line of a journal that is being written may be half.
    last = Math.max(last, fact.at ?? last);
    if (fact.job !== undefined) fact.job = String(fact.job);
    if (fact.kind === "JobSubmitted") names.set(String(fact.spec.id), fact.spec.owner ? `of ${fact.spec.owner}` : "");
    if (fact.kind === "NodeJoined" && fact.node) join(fact.node);
    if (fact.kind === "Start" || fact.kind === "Change") {
      close(fact.job, fact.at);
      open.set(fact.job, { job: fact.job, from: fact.at, devices: fact.allocation.devices.map(([node, number]) => `${node}:${number}`) });
    }
    if (ENDS.has(fact.kind)) close(fact.job, fact.at);
  }
  for (const job of [...open.keys()]) close(job, last);
  return {
    spells, jobs: names, nodes: [...nodes].map(([name, devices]) => ({ name, devices })),
    whole: { from: 0, to: last || 1 }, title: `policy ${first.settings?.policy ?? "not known"}`,
  };
}
