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
const VERBS = {
  cancel: { ask: "Cancel", done: "cancelled", body: "Processes are asked to stop, and are killed when the grace time is over. This cannot be undone.", danger: true },
  hold: { ask: "Hold", done: "held", body: "A job that waits does not start until it is released." },
  release: { ask: "Release", done: "released", body: "A held job may start again." },
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
    let carried = 0;
    const refused = [];
    for (let from = 0; from < ids.length; from += IDS_MAX) {
      const answer = await post("/jobs/orders", { verb, ids: ids.slice(from, from + IDS_MAX) });
      carried += answer.done;
      refused.push(...answer.outcomes.filter((each) => each.error));
    }
    if (carried) toast(`${count(carried, "job")} ${done}.`);
    if (refused.length) toast(`${count(refused.length, "job")} not ${done}: ${visible(refused[0].error)}.`, "problem");
    return carried > 0;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}

/** The three buttons, for the given jobs. */
export function OrderButtons({ ids, onDone = () => {} }) {
  const allowed = mayOrder();
  const why = allowed ? undefined : "Viewers cannot change jobs";
  return html`${Object.entries(VERBS).map(
    ([verb, { ask, danger }]) => html`<button class=${danger ? "warns" : ""} disabled=${!allowed || !ids.length} title=${why}
      onClick=${async () => (await orderJobs(verb, ids)) && onDone()}>${ask}</button>`,
  )}`;
}
