// What the page knows, and who wants to hear of which part of it.
//
// A change names its topics: "status", "jobs" (any of them), "job:ID", "nodes", "node:NAME",
// "events", "decisions", "link", "session", "second", "minute". A component names those it reads, so a
// tick draws again only what changed. Draws are gathered for each frame of the
// screen; a hidden tab draws nothing.

import { keepLook } from "./parts/colour.js";
import { useLayoutEffect, useReducer } from "./vendor/preact-htm.js";

const EVENTS_MAX = 1000;
const DECISIONS_MAX = 500;
const ENDED_MAX = 20000;
const ENDED = new Set(["SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"]);

export const state = {
  session: undefined, // undefined: not asked yet; null: nobody is logged in
  expired: false, // the last session ended without a word of its user
  link: { phase: "idle", detail: "" }, // of the stream: idle, connecting, open, reconnecting
  loaded: false, // nodes and status were read
  listed: false, // and the jobs, which take longer
  status: null,
  jobs: new Map(), // by id: active ones, and ended ones that the page has seen
  nodes: new Map(), // by name
  events: [], // the newest ones, in order
  decisions: [],
  version: { jobs: 0, nodes: 0, events: 0, decisions: 0 }, // for useMemo
};

let skew_s = 0; // of the server's clock against this one's
const listeners = new Map();
const dirty = new Set();
let scheduled = false;

/** Seconds since 1970 by the server's clock. */
export const now = () => Date.now() / 1000 + skew_s;

export const ended = (job) => ENDED.has(job.state);

export function subscribe(topic, listener) {
  if (!listeners.has(topic)) listeners.set(topic, new Set());
  listeners.get(topic).add(listener);
  return () => {
    const left = listeners.get(topic);
    left?.delete(listener);
    if (left?.size === 0) listeners.delete(topic);
  };
}

/** Tell those who read these topics, with the next frame. */
export function changed(...topics) {
  for (const topic of topics) {
    if (topic in state.version) state.version[topic] += 1;
    dirty.add(topic);
  }
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    const calls = new Set();
    for (const topic of dirty) for (const listener of listeners.get(topic) ?? []) calls.add(listener);
    dirty.clear();
    for (const call of calls) call();
  });
}

/** Draw the calling component again when one of these topics changes. */
export function useTopic(...topics) {
  const [, draw] = useReducer((count) => count + 1, 0);
  // With the drawing itself: an effect comes a frame later, and what changed until then was not heard of.
  useLayoutEffect(() => {
    const stops = topics.map((topic) => subscribe(topic, draw));
    return () => stops.forEach((stop) => stop());
  }, [topics.join(" ")]);
}

/** The time, in a component that shows ages. */
export function useNow() {
  useTopic("second");
  return now();
}

export function setSession(session, { expired = false } = {}) {
  state.expired = expired;
  state.session = session;
  if (!session) forget();
  changed("session");
}

export function setLink(phase, detail = "") {
  if (state.link.phase === phase && state.link.detail === detail) return;
  state.link = { phase, detail };
  changed("link");
}

/** The machine as it is now, instead of what was known. */
export function replaceMachine(status, nodes) {
  state.status = status;
  state.nodes = new Map(nodes.map((node) => [node.name, node]));
  state.loaded = true;
  changed("status", "nodes");
  for (const name of state.nodes.keys()) changed(`node:${name}`);
}

/** The active jobs as they are now. Ended ones are not in that list, and cannot change any more. */
export function replaceJobs(jobs) {
  const before = state.jobs;
  state.jobs = new Map(jobs.map((job) => [job.id, job]));
  for (const job of before.values()) {
    if (ended(job) && !state.jobs.has(job.id)) state.jobs.set(job.id, job);
  }
  for (const id of before.keys()) if (!state.jobs.has(id)) keepLook(id, false);
  for (const job of state.jobs.values()) keepLook(job.id, job.devices.length > 0);
  state.listed = true;
  changed("jobs");
  for (const id of new Set([...before.keys(), ...state.jobs.keys()])) changed(`job:${id}`);
}

/** Jobs that were read apart from the stream; newer knowledge is kept. */
export function addJobs(jobs) {
  for (const job of jobs) {
    if (ended(job) || !state.jobs.has(job.id)) setJob(job);
  }
  changed("jobs");
}

export function applyTick(tick) {
  skew_s = tick.at - Date.now() / 1000;
  if (tick.status) {
    state.status = tick.status;
    changed("status");
  }
  for (const job of tick.jobs ?? []) setJob(job);
  for (const id of tick.gone ?? []) {
    const job = state.jobs.get(id);
    // Pruned, or ended without a last word: what is not known any more is not shown.
    if (job && !ended(job)) {
      state.jobs.delete(id);
      keepLook(id, false);
      changed(`job:${id}`);
    }
  }
  if (tick.jobs?.length || tick.gone?.length) changed("jobs");
  for (const node of tick.nodes ?? []) {
    state.nodes.set(node.name, node);
    changed(`node:${node.name}`, "nodes");
  }
  for (const name of tick.lost ?? []) {
    state.nodes.delete(name);
    changed(`node:${name}`, "nodes");
  }
  if (tick.events?.length) {
    state.events = [...state.events, ...tick.events].slice(-EVENTS_MAX);
    changed("events");
  }
  if (tick.decisions?.length) addDecisions(tick.decisions);
}

/** Decisions from the stream or from a list; each is kept once, in order. */
export function addDecisions(decisions) {
  const known = new Map(state.decisions.map((each) => [each.id, each]));
  for (const each of decisions) known.set(each.id, each);
  state.decisions = [...known.values()].sort((a, b) => a.id - b.id).slice(-DECISIONS_MAX);
  changed("decisions");
}

function setJob(job) {
  state.jobs.set(job.id, job);
  keepLook(job.id, job.devices.length > 0);
  changed(`job:${job.id}`);
  if (state.jobs.size <= ENDED_MAX) return;
  for (const [id, each] of state.jobs) {
    if (ended(each)) {
      state.jobs.delete(id);
      return;
    }
  }
}

function forget() {
  state.loaded = false;
  state.listed = false;
  state.status = null;
  for (const id of state.jobs.keys()) keepLook(id, false);
  state.jobs = new Map();
  state.nodes = new Map();
  state.events = [];
  state.decisions = [];
  changed("status", "jobs", "nodes", "events", "decisions");
}

setInterval(() => !document.hidden && changed("second"), 1000);
setInterval(() => !document.hidden && changed("minute"), 60000);
