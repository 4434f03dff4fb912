// How a node does, in the words of `treadle nodes`: its agent, whether it is drained or lost.

import { useNow } from "../state.js";
import { html } from "../vendor/preact-htm.js";
import { span } from "./format.js";
import { visible } from "./safe-text.js";

/** Nothing on one machine, whose node has no agent, unless it is drained. */
export function NodeHealth({ node }) {
  const well = node.health === "answers";
  return html`
    ${node.health && html`<p class="node-health ${well ? "quiet" : "warned"}"><${Said} node=${node} /></p>`}
    ${node.drained && html`<p class="node-health warned">it is drained: it takes no new jobs</p>`}
    ${node.warning && html`<p class="node-health warned">${visible(node.warning)}</p>`}`;
}

/** The only part that is drawn again every second. */
function Said({ node }) {
  return node.since_at ? html`<${Since} node=${node} />` : sentence(node, "");
}

const Since = ({ node }) => sentence(node, `${span(Math.max(0, useNow() - node.since_at))} ago`);

function sentence({ health, because, noticed }, since) {
  if (health === "lost") return `${noticed ? "it is lost, which was noticed" : "it was lost"} ${since}${because ? `: ${visible(because)}` : ""}`;
  if (health === "joining") return "its agent has not answered yet";
  if (health === "slow" || health === "silent") return `its agent is ${health}: ${since ? `its last answer was ${since}` : "it has not answered yet"}`;
  if (health === "unused") return "it is not used";
  if (health === "unconfirmed") return `nothing is started there: ${visible(because)}${since ? `; it was confirmed last ${since}` : ""}`;
  return `its agent ${visible(health)}`;
}
