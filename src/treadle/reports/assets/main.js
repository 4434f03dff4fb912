// Builds the page from its parts.

function header() {
  const jobs = Math.max(...runs.map((run) => run.summary.jobs));
  place("facts").textContent = [
    plural(jobs, "job"), `${plural(data.nodes, "node")} with ${plural(data.devices, "device")}`,
    runs.length === 1 ? "1 policy" : `${runs.length} policies`,
  ].join(" · ");
  place("command").textContent = data.command;
  place("copy").addEventListener("click", copyCommand);
  place("notes").append(...data.notes.map((note) => element("li", {}, note)));
  place("notes").closest("section").hidden = !data.notes.length;
  document.querySelector(".command").hidden = !data.command;
}

async function copyCommand() {
  const button = place("copy");
  try {
    await navigator.clipboard.writeText(data.command);
    button.textContent = "Copied";
  } catch {
    // No clipboard for pages from a file in some browsers: select it, so that one key copies it.
    getSelection().selectAllChildren(place("command"));
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1600);
}

// -- distributions ------------------------------------------------------------------------------

function distribution(id, { key, xTitle, label, marker, ticks, logMarks, format, rest }) {
  const lines = runs.map((run) => {
    const { count: total, values } = run[key];
    const last = Math.max(values.length - 1, 1);
    const rank = (index) => Math.floor((index * (total - 1)) / last) + 1;
    return { xs: values, ys: values.map((_, index) => rank(index) / total) };
  });
  const all = lines.flatMap((line) => line.xs);
  if (!all.length) {
    place(id).append(element("p", { class: "note" }, "No job finished."));
    return;
  }
  const most = all.reduce((one, other) => Math.max(one, other));
  const positive = all.filter((value) => value > 0);
  const least = positive.length ? positive.reduce((one, other) => Math.min(one, other)) : 1;
  lineChart(place(id), {
    label, lines, xTitle, marker, rest, hasLog: true,
    yMax: () => 1,
    yFormat: (share) => `${Math.round(100 * share)} %`,
    axis: (isLog, room) => (isLog
      ? { from: least * 0.9, to: Math.max(most, least * 2), ticks: logMarks(least * 0.9, most, room), format: format.log }
      : { from: 0, to: most || 1, ticks: ticks(0, most || 1, room), format: format.linear(most) }),
    read: (line, x) => percent(line.ys[lastUpTo(line.xs, x)] ?? 0),
    at: (x) => `Within ${format.cursor(x)}`,
  });
}

// -- over time ----------------------------------------------------------------------------------

// Where each bin begins: short bins up to what is shown first, long ones after it.
const BINS = data.pieces.flatMap(([from, step, bins]) =>
  Array.from({ length: bins }, (_, index) => from + index * step));

function timeline(id, { key, peaks, label, limit, rest }) {
  const lines = runs.map((run) => {
    const used = run[key].length;
    return {
      xs: BINS.slice(0, used), ys: run[key], peaks: peaks ? run[peaks] : null, start: true,
      end: used ? BINS[used] ?? data.span_s : 0,
    };
  });
  const valueAt = (line, values, x) => (x <= line.end ? values[lastUpTo(line.xs, x)] ?? 0 : 0);
  lineChart(place(id), {
    label, lines, rest, zooms: true, isCalm: true, xTitle: "time since the first submission",
    yMax: (axis) => Math.max(limit ?? 1, ...lines.filter((_, index) => !state.hidden.has(index))
      .map((line) => largest(line, axis) * 1.05)),
    yFormat: (value) => value.toLocaleString("en"),
    axis: (_, room) => {
      const { from, to } = state.window;
      return { from, to, ticks: timeTicks(from, to, room), format: momentFormat(to - from) };
    },
    read: (line, x) => decimal(valueAt(line, line.ys, x))
      + (peaks ? `, max ${count(valueAt(line, line.peaks, x))}` : ""),
    at: (x) => `At ${duration(x)}`,
  });
}

function largest(line, axis) {
  const [first, last] = visible(line.xs, axis);
  const values = line.peaks ?? line.ys;
  let most = 0;
  for (let index = first; index <= last; index += 1) most = Math.max(most, values[index]);
  return most;
}

// Devices in use, or the progress they made, in one chart.
function deviceCharts(host) {
  const isKnown = runs.some((run) => run.summary.efficiency !== null);
  const choose = (id) => {
    for (const other of ["busy", "useful"]) place(other).hidden = other !== id;
  };
  timeline("busy", {
    key: "busy", label: "Devices in use over time", limit: data.devices * 1.03,
    rest: { title: "On average", text: (run) => percent(run.summary.utilization) },
  });
  choose("busy");
  if (!isKnown) return;
  timeline("useful", {
    key: "useful", label: "Devices turned into progress over time", limit: data.devices * 1.03,
    rest: { title: "On average", text: (run) => percent(run.summary.efficiency) },
  });
  host.append(choice("Show", [["busy", "in use"], ["useful", "turned into progress"]], "busy", choose),
    element("span", { class: "window-text" },
      "Progress: speeds of the running jobs, each as a multiple of its speed on one device."));
}

function setWindow(from, to) {
  const size = Math.min(Math.max(to - from, data.span_s / 1e5), data.span_s) || 1;
  const start = Math.min(Math.max(from, 0), Math.max(data.span_s - size, 0));
  state.window = { from: start, to: start + size };
  changed();
}

function zoomWindow(factor, around) {
  const { from, to } = state.window;
  const centre = around ?? (from + to) / 2;
  setWindow(centre - (centre - from) * factor, centre + (to - centre) * factor);
}

// Back to the initial time span; without a long tail that is the whole span.
function resetWindow() {
  setWindow(0, data.focus.length_s);
}

function showAll() {
  setWindow(0, data.span_s);
}

function windowControls(host) {
  const shift = (share) => () => {
    const { from, to } = state.window;
    setWindow(from + share * (to - from), to + share * (to - from));
  };
  const button = (text, label, act) =>
    element("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const shown = element("span", { class: "window-text", "aria-live": "polite" });
  const isCut = data.focus.cut_s > 0;
  host.append(element("div", { class: "choice", role: "group", "aria-label": "Time shown" },
    element("span", { class: "choice-label" }, "Time shown"),
    button("←", "Earlier", shift(-0.5)), button("→", "Later", shift(0.5)),
    button("+", "Zoom in", () => zoomWindow(0.5)), button("−", "Zoom out", () => zoomWindow(2)),
    button("Reset", "Reset to the initial time span", resetWindow),
    isCut ? button("Show all", "Show the whole time span", showAll) : null), shown);
  const cut = element("p", { class: "cut" });
  host.after(cut);
  const say = () => {
    const { from, to } = state.window;
    const isAll = to - from >= data.span_s * (1 - 1e-9);
    shown.textContent = isAll ? `all ${duration(data.span_s)}` : `${duration(from)} to ${duration(to)}`;
    cut.textContent = isCut && to < data.span_s * (1 - 1e-9) ? cutText() : "";
  };
  onChange(say);
  say();
}

function cutText() {
  const { length_s: length, cut_s: left, cut_devices: devices, cut_share: share } = data.focus;
  return `The charts end at ${duration(length)}: in the ${duration(left)} after it at most `
    + `${plural(devices, "device")} of ${count(data.devices)} ${devices === 1 ? "was" : "were"} in use, `
    + `${percent(share)} of all device time.`;
}

header();
drawSummary();
distribution("jct", {
  key: "jct", xTitle: "completion time", label: "Completion times of finished jobs, cumulative",
  ticks: timeTicks, logMarks: logTimeTicks,
  format: { log: markFormat, linear: momentFormat, cursor: duration },
  rest: { title: "Median", text: (run) => durationOf("jct_p50_s")(run.summary.jct_p50_s) },
});
windowControls(place("window"));
deviceCharts(place("devices-choice"));
timeline("waiting", {
  key: "waiting", peaks: "waiting_max", label: "Jobs waiting over time",
  rest: {
    title: "On average",
    text: ({ summary }) => `${decimal(summary.queue_length_mean)}, max ${count(summary.queue_length_max)}`,
  },
});
gantt(place("gantt"));
waitCauses(place("wait"));
groupTables(place("groups"));
distribution("fairness", {
  key: "fairness", xTitle: "finish-time fairness ρ", label: "Finish-time fairness, cumulative", marker: 1,
  ticks: roundTicks, logMarks: logTicks,
  format: { log: String, linear: () => (value) => String(Number(value.toPrecision(3))), cursor: (x) => x.toPrecision(3) },
  rest: { title: "Above 1", text: (run) => percent(run.summary.unfair_share) },
});
document.documentElement.classList.add("drawn");
