// Jobs: a live table of which only the visible rows are in the document.

import { get } from "../api.js";
import { count } from "../parts/format.js";
import { filterOf, GROUPS, rowsOf, SHOWN, sorted } from "../parts/job-filter.js";
import { jobAddress } from "../parts/job-name.js";
import { OrderButtons, orderJobs, mayOrder } from "../parts/job-orders.js";
import { GroupRow, JobRow } from "../parts/job-row.js";
import { toastProblem } from "../parts/toast.js";
import { WindowList } from "../parts/window-list.js";
import { addJobs, ended, state, useTopic } from "../state.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.js";

const ENDED_STATES = ["SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"];
const ENDED_READ_MAX = 5000;
const COLUMNS = [
  ["job", "Job"], ["user", "User"], ["state", "State"], ["reason", "Reason"], ["devices", "Devices"],
  ["progress", "Progress"], ["end", "Ends in"], ["submitted", "Submitted"],
];

export default function Jobs({ query }) {
  useTopic("jobs");
  const [view, change] = useView(query);
  const [selected, setSelected] = useState(new Set());
  const [closed, setClosed] = useState(new Set());
  const [active, activate] = useState({ index: 0 });
  const setView = (part) => {
    change(part);
    activate({ index: 0 }); // Another order or choice is read from its top.
  };
  const search = useRef();
  const height = useRowHeight();
  useEndedJobs(view.show === "ended" || view.show === "all");
  const rows = useMemo(() => {
    const passes = filterOf(view.filter);
    const shown = [...state.jobs.values()].filter((job) => SHOWN[view.show].has(job) && passes(job));
    return rowsOf(sorted(shown, view.sort, view.down), view.group, closed);
  }, [state.version.jobs, view, closed]);
  const jobs = useMemo(() => rows.filter((row) => row.job), [rows]);
  const at = placeOf(active, rows);
  const latest = useRef({});
  latest.current = { rows, at, selected };
  const setActive = useCallback((index) => activate({ index, key: keyOf(latest.current.rows[index]) }), []);

  const select = useCallback((index, many) => {
    const { rows: now, at: from, selected: before } = latest.current;
    const next = new Set(before);
    const [low, high] = many ? [Math.min(from, index), Math.max(from, index)] : [index, index];
    const on = !before.has(now[index].job?.id);
    for (const row of now.slice(low, high + 1)) if (row.job) on ? next.add(row.job.id) : next.delete(row.job.id);
    setSelected(next);
    setActive(index);
  }, []);
  const toggle = useCallback((name) => setClosed((before) => flipped(before, name)), []);
  const chosen = useMemo(() => [...selected].filter((id) => state.jobs.has(id) && !ended(state.jobs.get(id))), [selected, state.version.jobs]);
  const key = (event, index) => {
    const row = rows[index];
    if (event.key === "Enter" && row) row.job ? (location.hash = jobAddress(row.job.id)) : toggle(row.group);
    else if (event.key === " " && row) row.job ? select(index, event.shiftKey) : toggle(row.group);
    else if (event.key === "a" && (event.ctrlKey || event.metaKey)) setSelected(new Set(jobs.map((each) => each.job.id)));
    else if (event.key === "Escape") setSelected(new Set());
    else if (event.key === "/") search.current.focus();
    else if (event.key === "Delete" && chosen.length && mayOrder()) orderJobs("cancel", chosen);
    else return;
    event.preventDefault();
  };
  const draw = (index, isActive) => {
    const row = rows[index];
    return row.job
      ? html`<${JobRow} key=${row.job.id} id=${row.job.id} index=${index} active=${isActive} selected=${selected.has(row.job.id)} onSelect=${select} onActive=${setActive} />`
      : html`<${GroupRow} key=${`group ${row.group}`} name=${row.group} kind=${view.group} members=${row.members} index=${index} active=${isActive}
          open=${!closed.has(row.group)} onToggle=${toggle} onActive=${setActive} />`;
  };
  const head = html`<${Head} view=${view} setView=${setView} all=${selected.size >= jobs.length && jobs.length > 0 && jobs.every(({ job }) => selected.has(job.id))}
    onAll=${(on) => setSelected(on ? new Set(jobs.map((each) => each.job.id)) : new Set())} />`;
  return html`<div class="jobs-page">
    <div class="row toolbar">
      <h1>Jobs</h1>
      <input type="search" class="grow" ref=${search} value=${view.filter} placeholder="Filter: words, user:ada, -state:pending" aria-label="Filter jobs"
        onInput=${(event) => setView({ filter: event.target.value })} />
      <${Choice} label="Show" value=${view.show} choices=${Object.entries(SHOWN).map(([name, each]) => [name, each.words])} onChoose=${(show) => setView({ show })} />
      <${Choice} label="Group by" value=${view.group} choices=${Object.entries(GROUPS)} onChoose=${(group) => setView({ group })} />
      <span class="row narrow"><${Choice} label="Sort by" value=${view.sort} choices=${COLUMNS} onChoose=${(sort) => setView({ sort })} />
        <button aria-label=${view.down ? "Descending" : "Ascending"} onClick=${() => setView({ down: !view.down })}>${view.down ? "↓" : "↑"}</button></span>
    </div>
    <div class="row toolbar second">
      <span class="quiet grow" role="status">${count(jobs.length, "job")}${selected.size > 0 && `, ${selected.size} selected`}</span>
      ${selected.size > 0 && html`<button class="plain" onClick=${() => setSelected(new Set())}>Clear</button>`}
      <${OrderButtons} ids=${chosen} onDone=${() => setSelected(new Set())} />
    </div>
    <div class="job-table card">
      ${rows.length
        ? html`<${WindowList} grid rows=${rows.length} height=${height} draw=${draw} active=${at} reveal=${active} onActive=${setActive} onKey=${key} head=${head} head_px=${36}
            label="Jobs: arrows move, space selects, enter opens" />`
        : html`<${Nothing} view=${view} />`}
    </div>
  </div>`;
}

function Head({ view, setView, all, onAll }) {
  const sort = (column) => setView(view.sort === column ? { down: !view.down } : { sort: column, down: false });
  return html`<div class="job-row head" role="row" aria-rowindex="1">
    <span role="columnheader" class="check"><input type="checkbox" checked=${all} onChange=${(event) => onAll(event.target.checked)} aria-label="Select all that are shown" /></span>
    ${COLUMNS.map(
      ([column, words]) => html`<span role="columnheader" class=${`head-${column}`} aria-sort=${view.sort === column ? (view.down ? "descending" : "ascending") : "none"}>
        <button class="plain" onClick=${() => sort(column)}>${words}${view.sort === column ? (view.down ? " ↓" : " ↑") : ""}</button></span>`,
    )}
  </div>`;
}

function Choice({ label, value, choices, onChoose }) {
  return html`<label class="row quiet">${label} <select value=${value} onChange=${(event) => onChoose(event.target.value)}>
    ${choices.map(([name, words]) => html`<option value=${name} selected=${name === value}>${words}</option>`)}</select></label>`;
}

function Nothing({ view }) {
  if (!state.listed) return html`<p class="empty">Reading the jobs…</p>`;
  if (view.filter) return html`<p class="empty">No job matches the filter.</p>`;
  return html`<p class="empty">There is no such job. Submit one: <code>treadle submit -- python train.py</code></p>`;
}

/** What is shown stands in the address, so that it can be kept and sent. */
function useView(query) {
  const view = useMemo(
    () => ({ filter: query.filter ?? "", show: Object.hasOwn(SHOWN, query.show) ? query.show : "active", group: Object.hasOwn(GROUPS, query.group) ? query.group : "", sort: query.sort ?? "job", down: query.sort === undefined || query.down === "1" }),
    [query.filter, query.show, query.group, query.sort, query.down],
  );
  const change = (part) => {
    const next = { ...view, ...part };
    const text = new URLSearchParams({ ...next, down: next.down ? "1" : "0" });
    history.replaceState(null, "", `#/jobs?${text}`);
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  return [view, change];
}

const keyOf = (row) => row && (row.job ? row.job.id : `group ${row.group}`);

/** The active row stays with its job or group as others come and go, and else with its place. */
function placeOf({ index, key }, rows) {
  const place = key === undefined || keyOf(rows[index]) === key ? index : rows.findIndex((row) => keyOf(row) === key);
  return Math.min(place >= 0 ? place : index, rows.length - 1);
}

function useEndedJobs(shown) {
  useTopic("link");
  // Jobs that ended while the stream was down are in no frame of it.
  const wanted = shown && state.link.phase !== "reconnecting";
  useEffect(() => {
    let go = wanted;
    const read = async () => {
      let cursor = "";
      for (let seen = 0; go && seen < ENDED_READ_MAX; seen += 1000) {
        const page = await get("/jobs", { ended: true, state: ENDED_STATES, limit: 1000, cursor });
        addJobs(page.jobs);
        cursor = page.cursor;
        if (!cursor) return;
      }
    };
    if (wanted) read().catch(toastProblem);
    return () => (go = false);
  }, [wanted]);
}

function useRowHeight() {
  const narrow = useMemo(() => matchMedia("(max-width: 820px)"), []);
  const tall = () => (narrow.matches ? 84 : 34);
  const [height, setHeight] = useState(tall());
  useEffect(() => {
    const follow = () => setHeight(tall());
    narrow.addEventListener("change", follow);
    return () => narrow.removeEventListener("change", follow);
  }, []);
  return height;
}

function flipped(before, name) {
  const next = new Set(before);
  if (!next.delete(name)) next.add(name);
  return next;
}
