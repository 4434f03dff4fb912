// Builds the page from its parts.

import { lengthFormat, timeTicks } from "../charts/axes.js";
import {
  count, data, decimal, duration, durationOf, element, percent, place, plural, runs,
} from "./base.js";
import { deviceCharts, distribution, timeline } from "./curves.js";
import { drawGantt } from "./gantt.js";
import { groupTables } from "./groups.js";
import { markFormat, numberMarks, timeMarks } from "./marks.js";
import { drawSummary } from "./summary.js";
import { waitCauses } from "./wait_causes.js";
import { windowControls } from "./window.js";

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

header();
drawSummary();
distribution("jct", {
  key: "jct", xTitle: "completion time", label: "Completion times of finished jobs, cumulative",
  ticks: timeTicks, logMarks: timeMarks,
  format: { log: markFormat, linear: lengthFormat, cursor: duration },
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
drawGantt(place("gantt"));
waitCauses(place("wait"));
groupTables(place("groups"));
distribution("fairness", {
  key: "fairness", xTitle: "finish-time fairness ρ", label: "Finish-time fairness, cumulative", marker: 1,
  ticks: null, logMarks: numberMarks,
  format: { log: String, linear: () => (value) => String(Number(value.toPrecision(3))), cursor: (x) => x.toPrecision(3) },
  rest: { title: "Above 1", text: (run) => percent(run.summary.unfair_share) },
});
document.documentElement.classList.add("drawn");
