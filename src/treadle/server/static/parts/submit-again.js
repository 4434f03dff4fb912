// The command that submits a job again, as far as its record has it.

import { html } from "../vendor/preact-htm.js";
import { visible } from "./safe-text.js";
import { toast } from "./toast.js";

const HIDDEN = "hidden";

export function SubmitAgain({ detail }) {
  const command = commandOf(detail);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      toast("The command is in the clipboard.");
    } catch {
      toast("The browser does not allow it here; select the text instead.", "problem");
    }
  };
  const hidden = Object.values(detail.env).includes(HIDDEN);
  return html`<section class="card" aria-label="Submit it again">
    <div class="row"><h2 class="grow">Submit it again</h2><button onClick=${copy}>Copy</button></div>
    <pre class="command" tabindex="0">${visibleLines(command)}</pre>
    ${hidden && html`<p class="quiet small">Values of its variables are shown to its owner only, and are not in the command.</p>`}
    ${detail.secrets.length > 0 && html`<p class="quiet small">Secrets are taken from your own environment.</p>`}
  </section>`;
}

export function commandOf(detail) {
  const { job } = detail;
  const option = (name, value) => (value === null || value === undefined || value === "" ? [] : [`${name} ${quoted(String(value))}`]);
  const words = [
    ...option("--name", job.name),
    ...option("--devices", sizes(job.sizes)),
    ...option("--workdir", detail.workdir),
    ...option("--tenant", job.tenant),
    ...option("--priority", job.priority || ""),
    ...(job.guaranteed ? [] : ["--opportunistic"]),
    ...(job.resumable ? ["--resumable"] : []),
    ...(detail.exclusive ? ["--exclusive"] : []),
    ...option("--time-limit", detail.time_limit_s && `${detail.time_limit_s}s`),
    ...option("--memory", detail.memory_gib && `${detail.memory_gib}G`),
    ...option("--cpus", detail.cpus),
    ...option("--gpu-memory", detail.gpu_memory_gib && `${detail.gpu_memory_gib}G`),
    ...option("--model", job.model),
    ...(detail.grace_s === 30 ? [] : [`--grace ${detail.grace_s}s`]),
    ...(detail.retry_unknown ? [`--retries ${detail.retries}`] : []),
    ...Object.entries(detail.env).filter(([name, value]) => value !== HIDDEN && name !== "PATH").map(([name, value]) => `--env ${quoted(`${name}=${value}`)}`),
    ...detail.secrets.map((name) => `--secret ${quoted(name)}`),
  ];
  return ["treadle submit", ...words, `-- ${job.command.map(quoted).join(" ")}`].join(" \\\n  ");
}

function sizes(numbers) {
  const whole = numbers.length > 2 && numbers.at(-1) - numbers[0] === numbers.length - 1;
  return numbers.length === 1 ? numbers[0] : whole ? `${numbers[0]}..${numbers.at(-1)}` : numbers.join(",");
}

/** A word as a shell needs it; control characters in the form that shells can read back. */
function quoted(word) {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (/[\u0000-\u001f\u007f]/.test(word)) {
    const escaped = word.replace(/[\\']/g, "\\$&").replace(/[\u0000-\u001f\u007f]/g, (each) => `\\x${each.charCodeAt(0).toString(16).padStart(2, "0")}`);
    return `$'${escaped}'`;
  }
  return `'${word.replaceAll("'", "'\\''")}'`;
}

const visibleLines = (text) => text.split("\n").map(visible).join("\n");
