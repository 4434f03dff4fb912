// The time that curves and the chart of devices show together.

import { clamped } from "../charts/gantt.js";
import {
  changed, count, data, duration, element, onChange, percent, plural, state,
} from "./base.js";

export function setWindow(from, to) {
  state.window = clamped(from, to, { from: 0, to: data.span_s });
  changed();
}

function zoomWindow(factor) {
  const { from, to } = state.window;
  const [centre, half] = [(from + to) / 2, ((to - from) * factor) / 2];
  setWindow(centre - half, centre + half);
}

// Back to the initial time span; without a long tail that is the whole span.
export function resetWindow() {
  setWindow(0, data.focus.length_s);
}

function showAll() {
  setWindow(0, data.span_s);
}

export function windowControls(host) {
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
