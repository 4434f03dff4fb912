// Which jobs the table shows, in which order and in which groups: plain functions.

import { ended } from "../state.js";

const RUNNING = new Set(["STARTING", "RUNNING", "RESIZING", "STOPPING"]);
const WAITING = new Set(["PENDING", "HELD", "PAUSED"]);

export const SHOWN = {
  active: { words: "Active", has: (job) => !ended(job) },
  running: { words: "With devices", has: (job) => RUNNING.has(job.state) },
  waiting: { words: "Waiting", has: (job) => WAITING.has(job.state) },
  ended: { words: "Ended", has: ended },
  all: { words: "All", has: () => true },
};

export const GROUPS = { "": "No groups", tenant: "Tenant", user: "User", array: "Array" };

const FIELDS = {
  id: (job) => job.id,
  name: (job) => job.name,
  user: (job) => job.user,
  tenant: (job) => job.tenant,
  state: (job) => job.state,
  reason: (job) => `${job.cause} ${job.because}`,
  device: (job) => job.devices.join(" "),
  array: (job) => job.array,
  model: (job) => job.model,
  command: (job) => job.command.join(" "),
};

/** A test for jobs: each word must occur; `user:ada` looks in one field, `-word` must not occur. */
export function filterOf(text) {
  const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const not = word.startsWith("-") && word.length > 1;
    const [, field, sought] = /^(\w+):(.+)$/.exec(not ? word.slice(1) : word) ?? [];
    const read = Object.hasOwn(FIELDS, field) ? FIELDS[field] : null;
    const found = read
      ? (job) => read(job).toLowerCase().includes(sought)
      : (job) => Object.values(FIELDS).some((each) => each(job).toLowerCase().includes(not ? word.slice(1) : word));
    return not ? (job) => !found(job) : found;
  });
  return (job) => tests.every((test) => test(job));
}

const RANK = ["RUNNING", "RESIZING", "STARTING", "STOPPING", "PAUSED", "PENDING", "HELD", "FAILED", "TIMEOUT", "CANCELLED", "SUCCEEDED"];
const natural = new Intl.Collator("en", { numeric: true });
const KEYS_MAX = 50000;
const keys = new Map(); // id -> what it is compared by: to compare numbers in texts takes long

function keyOf(id) {
  let key = keys.get(id);
  if (key === undefined) {
    if (keys.size >= KEYS_MAX) keys.clear();
    key = id.replace(/\d+/g, (digits) => digits.padStart(12, "0"));
    keys.set(id, key);
  }
  return key;
}

export const done = (job) => (job.progress?.total ? Math.min(1, job.progress.step / job.progress.total) : null);

const SORTS = {
  job: (job) => keyOf(job.id),
  user: (job) => `${job.user} ${job.tenant}`,
  state: (job) => RANK.indexOf(job.state),
  reason: (job) => job.because,
  devices: (job) => job.devices.length,
  progress: done,
  end: (job) => (job.end?.known ? job.end.high_s : null),
  submitted: (job) => job.submitted_at,
};

/** Sorted by a column; what is not known comes last, whichever the direction. */
export function sorted(jobs, column, down) {
  const read = Object.hasOwn(SORTS, column) ? SORTS[column] : SORTS.job;
  const plain = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const compare = read === SORTS.job ? plain : natural.compare;
  const keyed = jobs.map((job) => [read(job), job]);
  keyed.sort(([a, one], [b, other]) => {
    if (a === b) return plain(keyOf(one.id), keyOf(other.id));
    if (a === null || a === "") return 1;
    if (b === null || b === "") return -1;
    const order = typeof a === "string" ? compare(a, b) : a - b;
    return down ? -order : order;
  });
  return keyed.map(([, job]) => job);
}

/** Rows of the table: jobs, with a row for each group before its jobs. */
export function rowsOf(jobs, group, closed) {
  if (!group) return jobs.map((job) => ({ job }));
  const groups = new Map();
  for (const job of jobs) {
    const name = job[group] || "";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(job);
  }
  const rows = [];
  for (const [name, members] of [...groups].sort(([a], [b]) => (a === "") - (b === "") || natural.compare(a, b))) {
    rows.push({ group: name, members });
    if (!closed.has(name)) for (const job of members) rows.push({ job });
  }
  return rows;
}
