// Results by size and by tenant.

import {
  broken, choice, count, decimal, duration, durationFor, element, runs,
} from "./base.js";

const GROUP_NUMBERS = [
  ["jct_mean_s", "mean JCT", duration], ["jct_p50_s", "median JCT", duration],
  ["jct_p99_s", "p99 JCT", duration], ["queue_mean_s", "mean wait", duration],
  ["gpu_h", "GPU hours", decimal],
];

export function groupTables(host) {
  const tables = element("div", {});
  function draw(key) {
    const format = GROUP_NUMBERS.find(([other]) => other === key)[2];
    tables.replaceChildren(groupTable("By job size", "Devices", "sizes", key, format));
    if (runs.some((run) => run.tenants.length > 1)) {
      tables.append(groupTable("By tenant", "Tenant", "tenants", key, format));
    }
  }
  host.append(element("div", { class: "controls" },
    choice("Show", GROUP_NUMBERS.map(([key, text]) => [key, text]), "jct_mean_s", draw)), tables);
  draw("jct_mean_s");
}

function groupTable(title, first, part, key, format) {
  const names = [...new Set(runs.flatMap((run) => run[part].map((group) => group.name)))];
  const head = element("tr", {}, element("th", { scope: "col" }, first),
    element("th", { scope: "col" }, "Jobs"),
    ...runs.map((run) => element("th", { scope: "col" }, ...broken(run.policy))));
  const rows = names.map((name) => groupRow(name, part, key, format));
  return element("div", {}, element("h3", {}, title),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      element("table", { class: "numbers groups" }, element("thead", {}, head),
        element("tbody", {}, ...rows))));
}

function groupRow(name, part, key, format) {
  const groups = runs.map((run) => run[part].find((group) => group.name === name));
  const values = groups.map((group) => (group ? group[key] : null));
  const say = format === duration ? durationFor(values) : format;
  const most = Math.max(...values.map((value) => value ?? 0), 1e-12);
  const least = Math.min(...values.map((value) => value ?? Infinity));
  // Values that print the same are equally good: mark all of them, or none if all are equal.
  const texts = values.map(say);
  const isTold = key !== "gpu_h" && new Set(texts).size > 1;
  const isBest = (text) => isTold && text === say(least);
  const jobs = groups.find((group) => group)?.jobs ?? 0;
  return element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, count(jobs)),
    ...values.map((value, index) => element("td", {},
      element("div", { class: isBest(texts[index]) ? "best" : null }, texts[index]),
      element("div", { class: "bar", "aria-hidden": "true" }, element("i", {
        style: { width: `${(100 * (value ?? 0)) / most}%`, background: runs[index].colour },
      })))));
}
