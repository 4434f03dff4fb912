// The state of a job: a sign, a colour and the word, so that none of them is needed alone.

import { html } from "../vendor/preact-htm.js";

const SIGNS = {
  PENDING: "○",
  HELD: "‖",
  STARTING: "◔",
  RUNNING: "●",
  RESIZING: "◑",
  PAUSED: "❚",
  STOPPING: "◒",
  SUCCEEDED: "✓",
  FAILED: "✕",
  CANCELLED: "–",
  TIMEOUT: "◷",
};

export function JobState({ state }) {
  return html`<span class="state ${state.toLowerCase()}"><span aria-hidden="true">${SIGNS[state] ?? "?"}</span>
    ${" "}${state.toLowerCase()}</span>`;
}
