// One stream of server-sent events for the tab, read with fetch.
//
// It resumes after the last frame that it got, with growing pauses, and says that it reconnects
// for as long as it does. If the server no longer has what was missed, the lists are read anew.

import { get, request } from "./api.js";
import { applyTick, replaceJobs, replaceMachine, setLink, state } from "./state.js";

const PAUSE_FIRST_MS = 500;
const PAUSE_MAX_MS = 15000;
const SILENCE_MAX_MS = 45000; // a stream without even a comment for so long is dead
const JOBS_FIRST = 200;
const JOBS_MAX = 10000; // in one answer

let running = null; // the AbortController of the stream that is open
let generation = 0; // counts starts and stops: a loop of an older one ends
let last = ""; // id of the newest frame
let log = null; // {job, attempt, rank, offset, onPiece}: at most one log is followed

export function startStream() {
  generation += 1;
  last = "";
  follow(generation);
}

export function stopStream() {
  generation += 1;
  running?.abort();
  setLink("idle");
}

/** Follow a log on the same stream; returns what stops it. */
export function followLog(wanted) {
  log = wanted;
  running?.abort("again");
  return () => {
    if (log !== wanted) return;
    log = null;
    running?.abort("again");
  };
}

/** Read the lists anew. The stream asks for it before its first tick; ticks wait until it is done. */
async function readLists(mine) {
  const use = (found) => mine === generation && found; // not of a session that is over
  // The machine and the first jobs are shown while thousands of others are still on their way.
  const machine = Promise.all([get("/status"), get("/nodes")]).then((found) => use(found) && replaceMachine(...found));
  machine.catch(() => {}); // It is heard of below, unless the jobs fail first.
  const first = state.listed ? null : await get("/jobs", { limit: JOBS_FIRST });
  if (use(first)) replaceJobs(first.jobs);
  const all = !first || first.cursor ? await allJobs() : null;
  if (use(all)) replaceJobs(all);
  await machine;
}

async function allJobs() {
  const found = [];
  let cursor = "";
  do {
    const page = await get("/jobs", { limit: JOBS_MAX, cursor });
    found.push(...page.jobs);
    cursor = page.cursor;
  } while (cursor);
  return found;
}

async function follow(mine) {
  let pause_ms = PAUSE_FIRST_MS;
  setLink("connecting");
  while (mine === generation && state.session) {
    let why = "the stream ended";
    try {
      await readStream(mine, () => {
        pause_ms = PAUSE_FIRST_MS;
        setLink("open");
      });
    } catch (error) {
      if (mine !== generation) return;
      if (!state.session) return;
      why = error?.message ?? String(error);
    }
    if (mine !== generation) return;
    if (running?.signal.reason === "again") continue;
    // Old news are better than none, as long as the page says that they are old.
    if (!state.listed) await readLists(mine).catch(() => {});
    if (mine !== generation) return;
    setLink("reconnecting", why);
    await new Promise((go) => setTimeout(go, pause_ms * (0.75 + Math.random() / 2)));
    pause_ms = Math.min(pause_ms * 2, PAUSE_MAX_MS);
  }
}

async function readStream(mine, onOpen) {
  const controller = (running = new AbortController());
  try {
    await readFrames(mine, controller.signal, onOpen);
  } finally {
    controller.abort(); // One that has gone silent would stay open.
  }
}

async function readFrames(mine, signal, onOpen) {
  const asked = log && `${log.job}:${log.attempt}:${log.rank}:${log.offset}`;
  const answer = await request("GET", "/stream", { query: { after: last, log: asked }, signal });
  onOpen();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await withLimit(reader.read());
    if (done || mine !== generation) return;
    text += value;
    const frames = text.split("\n\n");
    text = frames.pop();
    for (const frame of frames) {
      // While lists were read, another log may have been asked for.
      if (signal.aborted) return;
      await take(parsed(frame), mine);
    }
  }
}

/** What is read, unless it takes too long. */
function withLimit(reading) {
  let timer;
  const silence = new Promise((_, refuse) => {
    timer = setTimeout(() => refuse(new Error("the server has gone silent")), SILENCE_MAX_MS);
  });
  return Promise.race([reading, silence]).finally(() => clearTimeout(timer));
}

function parsed(frame) {
  const found = { event: "message", id: "", data: "" };
  for (const line of frame.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") found.data += found.data ? `\n${value}` : value;
    else if (name in found) found[name] = value;
  }
  return found;
}

async function take({ event, id, data }, mine) {
  if (event === "tick") applyTick(JSON.parse(data));
  else if (event === "reset") await readLists(mine);
  else if (event === "log" && log) {
    const piece = JSON.parse(data);
    log.offset = piece.next;
    log.onPiece(piece);
  }
  if (id && mine === generation) last = id;
}
