// The command that submits a job again, as the server writes it from the job's record.

import { html } from "../vendor/preact-htm.js";
import { sentence, visible } from "./safe-text.js";
import { toast } from "./toast.js";

export function SubmitAgain({ again }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(again.command);
      toast("The command is in the clipboard.");
    } catch {
      toast("The browser does not allow it here; select the text instead.", "problem");
    }
  };
  return html`<section class="card" aria-label="Submit it again">
    <div class="row"><h2 class="grow">Submit it again</h2>${again && html`<button onClick=${copy}>Copy</button>`}</div>
    ${again && html`<pre class="command" tabindex="0">${visibleLines(again.command)}</pre>`}
    ${again && again.notes.map((note) => html`<p class="quiet small" key=${note}>${sentence(note)}.</p>`)}
    ${!again && html`<p class="quiet small">The command has the values of the job's variables; only its owner and admins see it.</p>`}
  </section>`;
}

const visibleLines = (text) => text.split("\n").map(visible).join("\n");
