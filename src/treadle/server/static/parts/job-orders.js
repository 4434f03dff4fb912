// Cancel, hold and release: asked for once, said in sentences.

import { post } from "../api.js";
import { state } from "../state.js";
import { html } from "../vendor/preact-htm.js";
import { confirm } from "./confirm.js";
import { count } from "./format.js";
import { visible } from "./safe-text.js";
import { toast, toastProblem } from "./toast.js";

const IDS_MAX = 1000; // in one request
const NAMED_MAX = 5;
// Which jobs an order is for: one that runs and cannot resume would lose its work by being held,
// and what its array or a job before it holds back is not released by its user.
const isHeld = (job) => job.cause === "held" || (job.cause === "leaving" && job.numbers.by === "user") || (job.state === "HELD" && !["array", "dependency"].includes(job.cause));
const isBroken = (job) => job.cause === "broken";
const VERBS = {
  cancel: { ask: "Cancel", done: "cancelled", can: () => true, body: "Processes are asked to stop, and are killed when the grace time is over. This cannot be undone.", danger: true },
  hold: { ask: "Hold", done: "held", can: (job) => !isHeld(job) && job.state !== "STOPPING" && (job.resumable || !job.devices.length), none: "No such job can be held without a loss", body: "A job that waits does not start until it is released." },
  release: { ask: "Release", done: "released", can: (job) => isHeld(job) || isBroken(job), none: "No such job is held", body: "A held job may start again." },
};

export const mayOrder = () => state.session?.role !== "viewer";

/** Ask, order and tell what became of it. Resolves to whether anything was ordered. */
export async function orderJobs(verb, ids) {
  const { ask, done, body, danger } = VERBS[verb];
  const named = ids.slice(0, NAMED_MAX).map((id) => `${id} ${state.jobs.get(id)?.name ?? ""}`.trim());
  const more = ids.length - named.length;
  const yes = await confirm({
    title: `${ask} ${count(ids.length, "job")}?`,
    body: html`<p><bdi>${visible(named.join(", "))}</bdi>${more > 0 && ` and ${more} more`}</p><p class="quiet">${body}</p>`,
    yes: `${ask} ${ids.length === 1 ? "it" : `all ${ids.length}`}`,
    danger,
  });
  if (!yes) return false;
  try {
    const carried = [];
    const refused = [];
    for (let from = 0; from < ids.length; from += IDS_MAX) {
      const answer = await post("/jobs/orders", { verb, ids: ids.slice(from, from + IDS_MAX) });
      carried.push(...answer.outcomes.flatMap((each) => each.jobs));
      refused.push(...answer.outcomes.filter((each) => each.error));
    }
    const [only] = carried;
    if (carried.length === 1) toast(`Job ${only.id} ${done}: it is ${only.state.toLowerCase()} now.`);
    else if (carried.length) toast(`${count(carried.length, "job")} ${done}.`);
    if (refused.length) toast(`${count(refused.length, "job")} not ${done}: ${visible(refused[0].error)}.`, "problem");
    return carried.length > 0;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}

/** The three buttons, each for those of the given jobs that it can be done to. */
export function OrderButtons({ ids, onDone = () => {} }) {
  const allowed = mayOrder();
  return html`${Object.entries(VERBS).map(([verb, { ask, danger, can, none }]) => {
    const its = ids.filter((id) => state.jobs.has(id) && can(state.jobs.get(id)));
    const why = !allowed ? "Viewers cannot change jobs" : ids.length && !its.length ? none : undefined;
    return html`<button class=${danger ? "warns" : ""} disabled=${!allowed || !its.length} title=${why}
      onClick=${async () => (await orderJobs(verb, its)) && onDone()}>${ask}</button>`;
  })}`;
}
