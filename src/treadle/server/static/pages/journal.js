// Files from disk, read in the browser: a journal, a report, or an answer that this page saved.
//
// Nothing is sent to the server. A journal is one JSON object a line (`treadle journal -o FILE`);
// of it the chart needs the actions and what ended them.

import { reportOf } from "./report.js";

const ENDS = new Set(["JobFinished", "JobFailed", "JobCancelled", "JobStopped", "AttemptEnded"]);
const BYTES_MAX = 200 * 2 ** 20;

/** { journal: { spells, nodes, jobs, whole, title } }, { report } or { answer }; else it throws. */
export async function opened(file) {
  if (file.size > BYTES_MAX) throw new Error(`${file.name} has more than ${BYTES_MAX / 2 ** 20} MiB; analyze it with treadle analyze`);
  const text = await file.text();
  const first = parsed(text.slice(0, text.indexOf("\n") < 0 ? undefined : text.indexOf("\n")));
  if (first?.kind === "Opened") return { journal: journalRead(text, first, file.name) };
  const whole = first && text.trimEnd().indexOf("\n") < 0 ? first : parsed(text);
  if (isAnswer(whole)) return { answer: whole };
  const report = whole && reportOf(whole);
  if (report) return { report };
  if (whole?.cluster && whole?.jobs && whole?.placement) {
    throw new Error(`${file.name} is a snapshot: this page simulates the present queue only; treadle what-if ${file.name} simulates a snapshot in the terminal`);
  }
  throw new Error(`${file.name} is neither a journal (treadle journal -o FILE), nor a report (treadle compare --json), nor an answer that this page saved`);
}

/** Whether all is there that the page shows of an answer. */
function isAnswer(found) {
  const texts = (each, ...names) => names.every((name) => typeof each?.[name] === "string");
  const isSpell = (each) => texts(each, "job") && isFinite(each.from_s + each.to_s) && each.devices?.every?.((name) => texts({ name }, "name"));
  const lists = [[found?.jobs, (each) => texts(each, "job", "name", "user")], [found?.notes, (note) => texts({ note }, "note")], [found?.spells_now, isSpell], [found?.spells_then, isSpell]];
  return [found?.now, found?.then].every((each) => texts(each, "policy", "cluster")) && lists.every(([list, test]) => Array.isArray(list) && list.every(test));
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
  const nodes = new Map(first.cluster.nodes.map((node) => [node.name, node.device_count]));
  const [open, spells, names] = [new Map(), [], new Map()];
  let last = first.at;
  const close = (job, at) => {
    const spell = open.get(job);
    if (spell && at > spell.from) spells.push({ ...spell, to: at });
    open.delete(job);
  };
  for (const line of text.split("\n")) {
    const fact = line && parsed(line);
    if (!fact?.kind) continue; // The last line of a journal that is being written may be half.
    last = Math.max(last, fact.at ?? last);
    if (fact.kind === "JobSubmitted") names.set(fact.spec.id, fact.spec.owner ? `of ${fact.spec.owner}` : "");
    if (fact.kind === "NodeJoined" && fact.node) nodes.set(fact.node.name, fact.node.device_count);
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
