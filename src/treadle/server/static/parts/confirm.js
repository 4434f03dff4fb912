// A question before something that cannot be undone. The browser's own dialog keeps the focus in.

import { html, useEffect, useReducer, useRef } from "../vendor/preact-htm.js";

let question = null;
let draw = () => {};

/** Ask; resolves to whether the answer was yes. */
export function confirm({ title, body, yes, danger = false }) {
  return new Promise((answer) => {
    question = { title, body, yes, danger, answer };
    draw();
  });
}

export function ConfirmDialog() {
  const [, again] = useReducer((count) => count + 1, 0);
  const dialog = useRef();
  useEffect(() => {
    draw = again;
    return () => (draw = () => {});
  }, []);
  useEffect(() => {
    if (question && !dialog.current.open) dialog.current.showModal();
  });
  useEffect(() => {
    const leave = () => close(false); // The question was about another page.
    addEventListener("popstate", leave);
    return () => removeEventListener("popstate", leave);
  }, []);
  const close = (answer) => {
    question?.answer(answer);
    question = null;
    dialog.current.close();
    again();
  };
  return html`<dialog ref=${dialog} class="confirm" aria-labelledby="confirm-title" onCancel=${() => close(false)}>
    ${question &&
    html`<h2 id="confirm-title">${question.title}</h2>
      <div>${question.body}</div>
      <div class="row end">
        <button onClick=${() => close(false)}>No, leave it</button>
        <button class=${question.danger ? "danger" : "primary"} onClick=${() => close(true)}>${question.yes}</button>
      </div>`}
  </dialog>`;
}
