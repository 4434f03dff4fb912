// Short messages in the corner, read out by screen readers.

import { html, useReducer, useEffect } from "../vendor/preact-htm.js";

const SHOWN_MS = 7000;
const SHOWN_MAX = 4;

let shown = [];
let number = 0;
let draw = () => {};

/** Show a sentence. Kinds: "done", "problem". */
export function toast(text, kind = "done") {
  number += 1;
  const one = { number, text, kind };
  shown = [...shown, one].slice(-SHOWN_MAX);
  draw();
  setTimeout(() => dismiss(one.number), kind === "problem" ? SHOWN_MS * 2 : SHOWN_MS);
}

/** A refusal or a failure, as the sentence it carries. */
export const toastProblem = (error) => toast(error.sentence ?? error.message, "problem");

export function Toasts() {
  const [, again] = useReducer((count) => count + 1, 0);
  useEffect(() => {
    draw = again;
    return () => (draw = () => {});
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${shown.map(
      (each) => html`<div class="toast ${each.kind}" key=${each.number}>
        <span>${each.text}</span>
        <button class="plain" aria-label="Dismiss" onClick=${() => dismiss(each.number)}>×</button>
      </div>`,
    )}
  </div>`;
}

function dismiss(which) {
  shown = shown.filter((each) => each.number !== which);
  draw();
}
