// Why jobs waited: shares of all waiting time, for all jobs or those of one size.

import { Key, StackedRows } from "../charts/bars.js";
import { broken } from "../charts/line.js";
import { html, render } from "../vendor/preact-htm.js";
import { choice, data, element, percent, runs } from "./base.js";

const COLOURS = ["#0072b2", "#e69f00", "#999999", "#cc79a7"];

export function waitCauses(host) {
  const sizes = [["all", "all"], ...data.buckets.map((name) => [name, name])];
  const [key, rows] = [element("div"), element("div")];
  const parts = data.causes.map((name, index) => ({ name, colour: COLOURS[index] }));
  render(html`<${Key} parts=${parts} />`, key);
  const draw = (size) => render(html`<${StackedRows} rows=${runs.map((run) => causeRow(run, size))} />`, rows);
  host.append(element("div", { class: "controls" }, key, choice("Job size", sizes, "all", draw)), rows);
  draw("all");
}

function causeRow({ policy, summary }, size) {
  const shares = size === "all" ? summary.wait_causes : summary.wait_causes_by_size[size];
  const parts = shares && data.causes.map((name, index) => ({
    name, share: shares[name], colour: COLOURS[index], ink: index === 0 ? "#fff" : "#000",
    text: percent(shares[name]), inside: `${Math.round(100 * shares[name])} %`,
  }));
  return { name: broken(policy), label: policy, parts, none: "no job waited" };
}
