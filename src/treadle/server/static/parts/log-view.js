// A job's output, live: by attempt and rank, searched, and only the visible lines drawn.

import { get } from "../api.js";
import { followLog } from "../stream.js";
import { html, useEffect, useMemo, useReducer, useRef, useState } from "../vendor/preact-htm.js";
import { plainText } from "./ansi.js";
import { count } from "./format.js";
import { LogLines } from "./log-lines.js";
import { WindowList } from "./window-list.js";

const FIRST_BYTES = 262144; // of the end of the log
const PIECE_BYTES = 65536;
const HEIGHT = 19;

export function LogView({ job, attempts, ended }) {
  const [attempt, setAttempt] = useState(0); // 0: the newest
  const [rank, setRank] = useState(0);
  const [sought, setSought] = useState("");
  const [stick, setStick] = useState(true);
  const [hit, setHit] = useState(0);
  const log = useLog(job, attempt || attempts, rank, ended);
  const hits = useMemo(() => found(log.lines, sought), [log.lines, log.version, sought]);
  const go = (by) => {
    if (!hits.length) return;
    setStick(false);
    setHit((hit + by + hits.length) % hits.length);
  };
  const seek = (text) => {
    setSought(text);
    setHit(0);
    if (text) setStick(false);
  };
  const readAll = () => {
    setStick(false);
    log.whole();
  };
  const marked = hits[hit] ?? -1;
  const draw = (index) => html`<div class="log-line ${index === marked ? "marked" : ""}" key=${index + log.lines.dropped}>
    ${!log.from && html`<span class="line-number" aria-hidden="true">${index + log.lines.dropped + 1}</span>`}${log.lines.spans(index).map((span) => html`<span class=${span.classes}>${span.text}</span>`)}</div>`;
  return html`<section class="card log" aria-label="Output">
    <div class="row">
      <h2 class="grow">Output</h2>
      ${attempts > 1 && html`<${Numbers} label="Attempt" most=${attempts} from=${1} value=${attempt || attempts} onChoose=${setAttempt} />`}
      ${log.ranks > 1 && html`<${Numbers} label="Rank" most=${log.ranks - 1} from=${0} value=${rank} onChoose=${setRank} />`}
      <input type="search" placeholder="Search" aria-label="Search the output" value=${sought} onInput=${(event) => seek(event.target.value)}
        onKeyDown=${(event) => event.key === "Enter" && (event.preventDefault(), go(event.shiftKey ? -1 : 1))} />
      ${sought && html`<span class="quiet number">${hits.length ? `${hit + 1} of ${hits.length}` : "not found"}${log.from > 0 && " in these lines"}</span>
        <button onClick=${() => go(-1)} disabled=${!hits.length} aria-label="Previous hit">↑</button><button onClick=${() => go(1)} disabled=${!hits.length} aria-label="Next hit">↓</button>`}
      <button aria-pressed=${stick} onClick=${() => setStick(!stick)}>Follow</button>
    </div>
    ${log.problem && html`<p class="problem">${log.problem}</p>`}
    ${log.from > 0 && html`<p class="quiet small">The last ${count(log.lines.length, "line")}. <button class="plain inline" onClick=${readAll}>Read it from the beginning</button></p>`}
    ${log.lost > 0 && html`<p class="warned small">${count(log.lost, "byte")} in the middle were kept out by the limit on logs.</p>`}
    ${log.lines.length
      ? html`<${WindowList} rows=${log.lines.length} height=${HEIGHT} draw=${draw} active=${marked} stick=${stick} onStick=${setStick} label="Output of the job" />`
      : !log.problem && html`<p class="empty">${!log.read ? "Reading…" : ended || (attempt && attempt < attempts) ? "It wrote nothing." : "It has written nothing yet."}</p>`}
  </section>`;
}

function Numbers({ label, from, most, value, onChoose }) {
  const numbers = Array.from({ length: most - from + 1 }, (_, index) => index + from);
  return html`<label class="row quiet">${label} <select value=${value} onChange=${(event) => onChoose(Number(event.target.value))}>
    ${numbers.map((each) => html`<option value=${each} selected=${each === value}>${each}</option>`)}</select></label>`;
}

/** The lines of one rank: its end is read first, then the stream goes on from there. */
function useLog(job, attempt, rank, ended) {
  const [version, draw] = useReducer((number) => number + 1, 0);
  const [start, setStart] = useState(-FIRST_BYTES);
  const kept = useRef(null);
  const empty = () => ({ lines: new LogLines(), problem: "", read: false, from: 0, lost: 0, ranks: 0 });
  kept.current ??= empty();
  useEffect(() => setStart(-FIRST_BYTES), [job, attempt, rank]);
  useEffect(() => {
    const log = (kept.current = empty());
    let stop = () => {};
    let wanted = true;
    const take = (piece) => {
      if (!wanted || (piece.attempt && piece.attempt !== attempt) || piece.rank !== rank) return;
      log.lines.add(piece.text);
      log.lost += piece.lost;
      log.ranks = piece.ranks;
      draw();
    };
    const read = async () => {
      let offset = start;
      for (;;) {
        const piece = await get(`/jobs/${encodeURIComponent(job)}/log`, { attempt, rank, offset, limit: PIECE_BYTES }).catch((error) => {
          if (ended || error.status !== 404) throw error; // Else nothing is written yet.
        });
        if (!wanted) return;
        if (!piece) {
          [offset, log.read] = [Math.max(0, offset), true];
          draw();
          break;
        }
        if (!log.read) log.from = piece.offset;
        log.read = true;
        take(piece);
        offset = piece.next;
        if (piece.ended || piece.next >= piece.size) break;
      }
      if (!ended) stop = followLog({ job, attempt, rank, offset, onPiece: take });
    };
    if (attempt) read().catch((error) => wanted && ((log.problem = error.sentence ?? String(error)), draw()));
    draw();
    return () => {
      wanted = false;
      stop();
    };
  }, [job, attempt, rank, start]);
  return { ...kept.current, version, whole: () => setStart(0) };
}

function found(lines, sought) {
  if (!sought) return [];
  const small = sought.toLowerCase();
  const hits = [];
  lines.lines.forEach((line, index) => {
    if (plainText(line).toLowerCase().includes(small)) hits.push(index);
  });
  return hits;
}
