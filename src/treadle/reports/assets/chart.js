// Line charts: all runs in one frame, a legend that switches them on and off and reads values out.
//
// options: label, lines (of {xs, ys}, one for each run, with `peaks` where a band goes up to them), axis(log) -> {from, to, ticks, format},
// xTitle, yFormat, yMax, marker (a vertical line), hasLog, zooms (drag sets the time window),
// read(line, x) -> text at the cursor, at(x) -> what the cursor is at, rest: {title, text(run)} to
// show without a cursor, isCalm (plain lines, averaged to the width, for values that fluctuate).

const MARGIN = { left: 58, right: 14, top: 10, bottom: 42 };
const CHART_HEIGHT = 280;

function lineChart(host, options) {
  const chart = { host, options, isLog: Boolean(options.hasLog), cursor: null };
  chart.legend = legend(chart);
  chart.frame = element("div", {
    class: "chart", tabindex: "0", role: "img", "aria-label": options.label,
    onpointermove: (event) => moved(chart, event),
    onpointerleave: () => point(chart, null),
    onpointerdown: (event) => pressed(chart, event),
    onpointerup: (event) => released(chart, event),
    onpointercancel: () => { chart.pressedAt = null; },
    ondblclick: () => options.zooms && resetWindow(),
    onkeydown: (event) => chartKey(chart, event),
  });
  const controls = element("div", { class: "controls" }, chart.legend.list);
  if (options.hasLog) {
    controls.append(choice("Scale", [[true, "log"], [false, "linear"]], chart.isLog, (isLog) => {
      chart.isLog = isLog;
      drawChart(chart);
    }));
  }
  host.append(controls, chart.frame);
  if (options.zooms) chart.frame.classList.add("zooms");
  onWidth(chart.frame, () => drawChart(chart));
  onChange(() => drawChart(chart));
}

function legend(chart) {
  const list = element("div", { class: "legend", role: "group", "aria-label": "Policies shown" });
  const title = element("span", { class: "legend-title" });
  const values = runs.map(() => element("span", { class: "legend-value" }));
  const buttons = runs.map((run, index) => element("button", {
    type: "button", title: `Show or hide ${run.policy}`,
    onclick: () => {
      if (!state.hidden.delete(index)) state.hidden.add(index);
      changed();
    },
  }, swatch(index, !chart.options.isCalm),
    element("span", { class: "legend-name" }, ...broken(run.policy)), values[index]));
  list.append(title, ...buttons);
  const { lines, read, at, rest } = chart.options;
  const update = () => {
    const { cursor } = chart;
    title.textContent = cursor === null ? rest.title : at(cursor);
    runs.forEach((run, index) => {
      buttons[index].setAttribute("aria-pressed", String(!state.hidden.has(index)));
      values[index].textContent = cursor === null ? rest.text(run) : read(lines[index], cursor);
    });
  };
  return { list, update };
}

function drawChart(chart) {
  const width = chart.frame.clientWidth;
  if (!width) return;
  const { options } = chart;
  const axis = options.axis(chart.isLog, Math.max(2, Math.floor((width - 72) / 64)));
  const [left, right] = [MARGIN.left, width - MARGIN.right];
  const [top, bottom] = [MARGIN.top, CHART_HEIGHT - MARGIN.bottom];
  const x = (chart.isLog ? logScale : linearScale)(axis.from, axis.to, left, right);
  const yMax = options.yMax(axis);
  const y = linearScale(0, yMax, bottom, top);
  chart.x = x;
  const clip = `clip-${chart.host.id}`;
  chart.rule = drawn("line", { class: "rule", y1: top, y2: bottom, visibility: "hidden" });
  chart.brush = drawn("rect", { class: "brush", y: top, height: bottom - top, visibility: "hidden" });
  const picture = drawn("svg", { width, height: CHART_HEIGHT, "aria-hidden": "true" },
    drawn("clipPath", { id: clip },
      drawn("rect", { x: left, y: top - 2, width: right - left, height: bottom - top + 4 })),
    ...roundTicks(0, yMax, 5).map((tick) => horizontal(y(tick), left, right, options.yFormat(tick))),
    ...axis.ticks.map((tick) => vertical(x(tick), bottom, axis.format(tick))),
    drawn("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
    drawn("text", { class: "axis-title", x: right, y: CHART_HEIGHT - 4, "text-anchor": "end" },
      options.xTitle));
  if (options.marker !== undefined && options.marker >= axis.from && options.marker <= axis.to) {
    const at = x(options.marker);
    picture.append(drawn("line", { class: "marker", x1: at, x2: at, y1: top, y2: bottom }));
  }
  const curves = drawn("g", { "clip-path": `url(#${clip})` });
  options.lines.forEach((line, index) => {
    if (state.hidden.has(index) || !line.xs.length) return;
    const points = options.isCalm ? averaged(line, axis, (right - left) / 3) : line;
    if (points.peaks) curves.append(band(points, x, y, axis, runs[index].colour));
    curves.append(curve(points, x, y, axis, {
      stroke: runs[index].colour, "stroke-dasharray": options.isCalm ? null : dashes(index),
    }));
  });
  picture.append(curves, chart.brush, chart.rule);
  chart.frame.replaceChildren(picture);
  chart.cursor = null;
  chart.legend.update();
}

function horizontal(at, left, right, text) {
  return drawn("g", {},
    drawn("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }),
    drawn("text", { class: "tick", x: left - 8, y: at + 4, "text-anchor": "end" }, text));
}

function vertical(at, bottom, text) {
  return drawn("g", {},
    drawn("line", { class: "axis", x1: at, x2: at, y1: bottom, y2: bottom + 5 }),
    drawn("text", { class: "tick", x: at, y: bottom + 18, "text-anchor": "middle" }, text));
}

// Averages neighbouring points over time, so that the axis shows a limited number.
function averaged(line, axis, most) {
  const [first, last] = visible(line.xs, axis);
  const every = Math.ceil((last - first + 1) / most);
  if (every <= 1) return line;
  const [xs, ys, peaks] = [[], [], []];
  for (let at = first - (first % every); at <= last; at += every) {
    const to = Math.min(at + every, line.xs.length);
    let [sum, length, peak] = [0, 0, 0];
    for (let index = at; index < to; index += 1) {
      const lasts = (line.xs[index + 1] ?? line.end) - line.xs[index];
      sum += line.ys[index] * lasts;
      length += lasts;
      if (line.peaks) peak = Math.max(peak, line.peaks[index]);
    }
    xs.push(line.xs[at]);
    ys.push(length ? sum / length : 0);
    peaks.push(peak);
  }
  return { ...line, xs, ys, peaks: line.peaks ? peaks : null };
}

// From the mean up to the largest value: a light area with an edge.
function band(line, x, y, axis, colour) {
  const [there, back] = [[], []];
  const [first, last] = visible(line.xs, axis);
  for (let at = first; at <= last; at += 1) {
    const from = x(line.xs[at]).toFixed(1);
    const to = x(Math.min(line.xs[at + 1] ?? line.end, axis.to)).toFixed(1);
    const [low, high] = [y(line.ys[at]).toFixed(1), y(line.peaks[at]).toFixed(1)];
    there.push(`${there.length ? "L" : "M"}${from},${high}H${to}`);
    back.unshift(`L${to},${low}H${from}`);
  }
  return drawn("g", { class: "peaks" },
    drawn("path", { d: `${there.join("")}${back.join("")}Z`, fill: colour }),
    drawn("path", { class: "peaks-edge", d: there.join(""), stroke: colour }));
}

// A staircase: each value holds until the next.
function curve(line, x, y, axis, look) {
  const parts = [];
  const [first, last] = visible(line.xs, axis);
  for (let at = first; at <= last; at += 1) {
    const across = x(line.xs[at]).toFixed(1);
    const up = y(line.ys[at]).toFixed(1);
    parts.push(parts.length ? `H${across}V${up}` : `M${across},${line.start ? up : y(0).toFixed(1)}V${up}`);
  }
  if (line.end !== undefined) parts.push(`H${x(Math.min(line.end, axis.to)).toFixed(1)}`);
  else parts.push(`H${x(axis.to).toFixed(1)}`);
  return drawn("path", { class: "curve", d: parts.join(""), ...look });
}

// The points within the axis, and one more on either side.
function visible(xs, axis) {
  return [Math.max(lastUpTo(xs, axis.from), 0), Math.min(lastUpTo(xs, axis.to) + 1, xs.length - 1)];
}

// The place of the last value that is not above a limit; -1 if there is none.
function lastUpTo(xs, limit) {
  let [low, high] = [0, xs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// -- pointer and keys ---------------------------------------------------------------------------

function moved(chart, event) {
  const at = across(chart, event);
  if (chart.pressedAt !== null && chart.pressedAt !== undefined) {
    const [from, to] = [chart.pressedAt, at].sort((one, other) => one - other);
    fill(chart.brush, { x: from, width: to - from, visibility: "visible" }, []);
  }
  point(chart, at);
}

function pressed(chart, event) {
  if (!chart.options.zooms || event.pointerType === "touch") return;
  chart.pressedAt = across(chart, event);
  chart.frame.setPointerCapture(event.pointerId);
}

function released(chart, event) {
  const from = chart.pressedAt;
  chart.pressedAt = null;
  if (from === null || from === undefined) return;
  const to = across(chart, event);
  chart.brush.setAttribute("visibility", "hidden");
  if (Math.abs(to - from) > 5) {
    setWindow(chart.x.invert(Math.min(from, to)), chart.x.invert(Math.max(from, to)));
  }
}

function across(chart, event) {
  const frame = chart.frame.getBoundingClientRect();
  return Math.min(Math.max(event.clientX - frame.left, MARGIN.left), frame.width - MARGIN.right);
}

function point(chart, at) {
  if (!chart.x) return;
  chart.at = at;
  chart.cursor = at === null ? null : chart.x.invert(at);
  fill(chart.rule, { x1: at ?? 0, x2: at ?? 0, visibility: at === null ? "hidden" : "visible" }, []);
  chart.legend.update();
}

function chartKey(chart, event) {
  const step = { ArrowLeft: -8, ArrowRight: 8 }[event.key];
  if (step === undefined || !chart.x) return;
  event.preventDefault();
  const right = chart.frame.clientWidth - MARGIN.right;
  const at = chart.at ?? (MARGIN.left + right) / 2;
  point(chart, Math.min(Math.max(at + step, MARGIN.left), right));
}
