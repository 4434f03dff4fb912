// The chart of devices: time across, devices down, one rectangle for each hold. On a canvas,
// since there may be tens of thousands.

const GUTTER = MARGIN.left; // The time axis lies under those of the curves.
const GANTT_AXIS = 26;
const ROWS_HEIGHT = 480;
const NODE_LABEL_MIN = 13;
const COLOURINGS = [["size", "size"], ["tenant", "tenant"], ["job", "job"]];

function gantt(host) {
  const chart = { run: 0, colouring: "size", over: -1, rows: null, holds: runs.map(() => null) };
  chart.canvas = element("canvas", {
    tabindex: "0", role: "img", "aria-labelledby": "gantt-title",
    onwheel: (event) => ganttWheel(chart, event), onkeydown: (event) => ganttKey(chart, event),
    onpointerdown: (event) => ganttPress(chart, event), ondblclick: resetWindow,
    onpointermove: (event) => ganttMove(chart, event),
    onpointerup: () => { chart.drag = null; }, onpointercancel: () => { chart.drag = null; },
    onpointerleave: () => ganttPoint(chart, -1, 0),
  });
  chart.frame = element("div", { class: "gantt" }, chart.canvas);
  chart.readout = element("p", { class: "readout", "aria-live": "polite" });
  chart.key = element("div", { class: "key" });
  chart.left = element("p", { class: "left" }); // How much is not drawn: printed too.
  chart.note = element("p", { class: "note" });
  const colourings = data.jobs.tenant_names.length > 1
    ? COLOURINGS : COLOURINGS.filter(([name]) => name !== "tenant");
  host.append(
    element("div", { class: "controls" },
      choice("Policy", runs.map((run, index) => [index, run.policy]), 0, (index) => {
        chart.run = index;
        chart.rows = null;
        drawGantt(chart);
      }),
      choice("Colour by", colourings, "size", (name) => {
        chart.colouring = name;
        drawGantt(chart);
      }),
      element("div", { class: "choice", role: "group", "aria-label": "Rows" },
        element("span", { class: "choice-label" }, "Rows"),
        rowButton(chart, "taller", 0.5), rowButton(chart, "shorter", 2))),
    chart.key, chart.frame, chart.readout, chart.left, chart.note);
  onWidth(chart.frame, () => drawGantt(chart));
  onChange(() => drawGantt(chart));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawGantt(chart));
}

function rowButton(chart, text, factor) {
  return element("button", { type: "button", onclick: () => stretchRows(chart, factor, 0) }, text);
}

// Columns as they came, plus where the rows of each hold begin in `spans`.
function unpacked(chart) {
  const found = chart.holds[chart.run];
  if (found) return found;
  const packed = runs[chart.run].holds;
  const starts = new Uint32Array(packed.job.length);
  for (let index = 0, at = 0; index < starts.length; index += 1) {
    starts[index] = at;
    at += 1 + 2 * packed.spans[at];
  }
  const turns = packed.turn.reduce((most, turn) => Math.max(most, turn), 0) + 1;
  const devices = runs[chart.run].nodes.reduce((sum, [, width]) => sum + width, 0);
  chart.holds[chart.run] = { ...packed, starts, turns, devices };
  return chart.holds[chart.run];
}

// -- drawing ------------------------------------------------------------------------------------

function drawGantt(chart) {
  const width = chart.frame.clientWidth;
  if (!width) return;
  const holds = unpacked(chart);
  chart.rows ??= { from: 0, to: holds.devices };
  const rowsHeight = Math.min(ROWS_HEIGHT, Math.max(holds.devices * 14, 60));
  chart.height = rowsHeight;
  const scale = window.devicePixelRatio || 1;
  const { canvas } = chart;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round((rowsHeight + GANTT_AXIS) * scale);
  Object.assign(canvas.style, { width: `${width}px`, height: `${rowsHeight + GANTT_AXIS}px` });
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const right = width - MARGIN.right;
  chart.x = linearScale(state.window.from, state.window.to, GUTTER, right);
  chart.y = linearScale(chart.rows.from, chart.rows.to, 0, rowsHeight);
  pen.fillStyle = cssColour("--idle");
  pen.fillRect(GUTTER, 0, right - GUTTER, rowsHeight);
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, 0, right - GUTTER, rowsHeight);
  pen.clip();
  drawHolds(chart, holds, pen, right);
  drawNodeLines(chart, pen, right);
  pen.restore();
  drawNodeNames(chart, pen);
  drawTimes(chart, pen, width);
  drawKey(chart);
  drawNote(chart, holds);
}

function drawHolds(chart, holds, pen, right) {
  const colourOf = holdColour(chart);
  const overJob = chart.over < 0 ? -1 : holds.job[chart.over];
  const rowHeight = chart.y(1) - chart.y(0);
  const gap = rowHeight >= 6 ? 1 : 0;
  for (let index = 0; index < holds.job.length; index += 1) {
    const from = chart.x(holds.from_s[index]);
    const to = chart.x(holds.from_s[index] + holds.lasts_s[index]);
    if (to < GUTTER || from > right) continue;
    const isOver = overJob >= 0 && holds.job[index] === overJob;
    pen.globalAlpha = overJob < 0 || isOver ? 1 : 0.35;
    pen.fillStyle = colourOf(holds.job[index]);
    const wide = Math.max(to - from - (to - from > 4 ? 0.6 : 0), 0.5);
    eachBand(holds, index, (first, rows) => {
      const [top, bottom] = [chart.y(first), chart.y(first + rows)];
      if (bottom < 0 || top > chart.height) return;
      pen.fillRect(from, top, wide, Math.max(bottom - top - gap, 0.7));
    });
  }
  pen.globalAlpha = 1;
}

// Bands of rows of one hold. Jobs that share devices get a part of each row, by their turn.
function eachBand(holds, index, visit) {
  const start = holds.starts[index];
  for (let at = start + 1; at < start + 1 + 2 * holds.spans[start]; at += 2) {
    const [first, rows] = [holds.spans[at], holds.spans[at + 1]];
    if (holds.turns === 1) visit(first, rows);
    else {
      for (let row = first; row < first + rows; row += 1) {
        visit(row + holds.turn[index] / holds.turns, 1 / holds.turns);
      }
    }
  }
}

function holdColour(chart) {
  const { buckets, tenants } = data.jobs;
  if (chart.colouring === "size") return (job) => BUCKET_COLOURS[buckets[job]];
  if (chart.colouring === "tenant") return (job) => TENANT_COLOURS[tenants[job] % TENANT_COLOURS.length];
  // The golden angle keeps neighbours apart.
  return (job) => `hsl(${(job * 137.5) % 360} 55% ${48 + (job % 3) * 8}%)`;
}

function drawNodeLines(chart, pen, right) {
  const { nodes } = runs[chart.run];
  pen.fillStyle = cssColour("--paper");
  let row = 0;
  for (const [, wide] of nodes) {
    const isRoomy = chart.y(row + wide) - chart.y(row) >= 5;
    if (row && isRoomy) pen.fillRect(GUTTER, chart.y(row) - 1, right - GUTTER, 2);
    row += wide;
  }
}

function drawNodeNames(chart, pen) {
  pen.fillStyle = cssColour("--muted");
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  let [row, free] = [0, 0];
  for (const [name, wide] of runs[chart.run].nodes) {
    const [top, bottom] = [Math.max(chart.y(row), 0), Math.min(chart.y(row + wide), chart.height)];
    const at = (top + bottom) / 2;
    if (bottom > top && at - NODE_LABEL_MIN / 2 >= free - 1) {
      pen.fillText(fitted(pen, name, GUTTER - 10), GUTTER - 8, Math.max(at, 7));
      free = at + NODE_LABEL_MIN / 2;
    }
    row += wide;
  }
}

function fitted(pen, text, room) {
  let shown = text.slice(0, 40);
  while (shown.length > 1 && pen.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`;
  return shown;
}

function drawTimes(chart, pen, width) {
  const { from, to } = state.window;
  const format = momentFormat(to - from);
  pen.textBaseline = "top";
  for (const tick of timeTicks(from, to, Math.max(2, Math.floor((width - GUTTER - MARGIN.right) / 64)))) {
    const [text, at] = [format(tick), chart.x(tick)];
    const half = pen.measureText(text).width / 2;
    pen.textAlign = "center";
    pen.fillRect(at, chart.height, 1, 5);
    if (at + half <= width && at - half >= 0) pen.fillText(text, at, chart.height + 9);
  }
}

function drawKey(chart) {
  const { tenant_names: tenants } = data.jobs;
  let items = [];
  if (chart.colouring === "size") {
    items = data.buckets.map((name, index) => [BUCKET_COLOURS[index], name === "1" ? "1 device" : `${name} devices`]);
  } else if (chart.colouring === "tenant") {
    items = tenants.slice(0, 12).map((name, index) =>
      [TENANT_COLOURS[index % TENANT_COLOURS.length], name || "(no tenant)"]);
  }
  items.push([cssColour("--idle"), "idle"]);
  const more = chart.colouring === "tenant" && tenants.length > 12 ? tenants.length - 12 : 0;
  chart.key.replaceChildren(
    ...items.map(([colour, name]) => element("span", {}, block(colour), name)),
    more ? element("span", {}, `and ${plural(more, "more tenant")}`) : "");
}

function drawNote(chart, holds) {
  const left = holds.total - holds.job.length;
  const shown = left
    ? `The ${count(holds.job.length)} largest of ${count(holds.total)} holds are drawn; the `
      + `${count(left)} left out are ${percent(1 - holds.shown_share)} of the device time in use.`
    : "";
  chart.left.textContent = shown;
  chart.note.textContent = "Wheel: zoom in time; with Shift: zoom in devices. Drag: move. "
    + "Keys: + − ← → ↑ ↓, 0 to reset.";
  if (chart.over < 0) chart.readout.textContent = "Point at a rectangle to see its job.";
}

// -- pointer and keys ---------------------------------------------------------------------------

function ganttWheel(chart, event) {
  const isOut = event.deltaY > 0;
  const { from, to } = state.window;
  // All is shown already: let the page scroll on.
  if (isOut && !event.shiftKey && to - from >= data.span_s) return;
  event.preventDefault();
  const factor = Math.exp(Math.max(-1, Math.min(1, (event.deltaY || event.deltaX) / 300)));
  if (event.shiftKey) stretchRows(chart, factor, chart.y.invert(event.offsetY));
  else zoomWindow(factor, chart.x.invert(Math.max(event.offsetX, GUTTER)));
}

function stretchRows(chart, factor, around) {
  const { devices } = unpacked(chart);
  const { from, to } = chart.rows;
  const size = Math.min(Math.max((to - from) * factor, Math.min(4, devices)), devices);
  const share = (around - from) / (to - from);
  moveRows(chart, Math.max(around - share * size, 0), size);
}

function moveRows(chart, from, size) {
  const start = Math.min(Math.max(from, 0), unpacked(chart).devices - size);
  chart.rows = { from: start, to: start + size };
  drawGantt(chart);
}

function ganttPress(chart, event) {
  if (event.pointerType === "touch") return; // A finger scrolls the page; buttons zoom.
  chart.canvas.setPointerCapture(event.pointerId);
  chart.drag = { x: event.offsetX, y: event.offsetY, window: { ...state.window }, rows: chart.rows };
}

function ganttMove(chart, event) {
  if (!chart.drag) {
    ganttPoint(chart, hit(chart, event.offsetX, event.offsetY), event.offsetY);
    return;
  }
  const { window: view, rows, x, y } = chart.drag;
  const past = chart.x.invert(x) - chart.x.invert(event.offsetX);
  setWindow(view.from + past, view.to + past);
  const lines = ((y - event.offsetY) / chart.height) * (rows.to - rows.from);
  if (rows.to - rows.from < unpacked(chart).devices) moveRows(chart, rows.from + lines, rows.to - rows.from);
}

function hit(chart, across, down) {
  const right = chart.frame.clientWidth - MARGIN.right;
  if (!chart.x || across < GUTTER || across > right || down > chart.height) return -1;
  const holds = unpacked(chart);
  const [at, row] = [chart.x.invert(across), chart.y.invert(down)];
  const slack = chart.x.invert(1) - chart.x.invert(0); // One pixel: short holds can be pointed at.
  let found = -1;
  for (let index = 0; index < holds.job.length && holds.from_s[index] <= at + slack; index += 1) {
    if (holds.from_s[index] + holds.lasts_s[index] < at - slack) continue;
    eachBand(holds, index, (first, rows) => {
      if (row >= first && row < first + rows) found = index;
    });
  }
  return found;
}

function ganttPoint(chart, index) {
  if (index === chart.over) return;
  chart.over = index;
  drawGantt(chart);
  if (index < 0) return;
  const holds = unpacked(chart);
  const job = holds.job[index];
  const tenant = data.jobs.tenant_names[data.jobs.tenants[job]];
  const from = holds.from_s[index];
  let size = 0;
  eachBand(holds, index, (_, rows) => { size += rows; });
  const devices = holds.turns === 1 ? size : Math.round(size * holds.turns);
  chart.readout.replaceChildren(
    element("b", {}, `job ${data.jobs.ids[job]}`),
    ` on ${plural(devices, "device")}${devices === data.jobs.sizes[job] ? "" : ` (asked for ${data.jobs.sizes[job]})`}`,
    tenant ? `, tenant ${tenant}` : "",
    `, from ${duration(from)} to ${duration(from + holds.lasts_s[index])}, held ${duration(holds.lasts_s[index])}`);
}

function ganttKey(chart, event) {
  const { from, to } = state.window;
  const [step, size] = [(to - from) / 8, chart.rows.to - chart.rows.from];
  const keys = {
    "+": () => zoomWindow(0.7), "=": () => zoomWindow(0.7), "-": () => zoomWindow(1.4),
    0: () => { chart.rows = null; resetWindow(); },
    ArrowLeft: () => setWindow(from - step, to - step), ArrowRight: () => setWindow(from + step, to + step),
    ArrowUp: () => moveRows(chart, chart.rows.from - size / 8, size),
    ArrowDown: () => moveRows(chart, chart.rows.from + size / 8, size),
  };
  if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  keys[event.key]();
}
