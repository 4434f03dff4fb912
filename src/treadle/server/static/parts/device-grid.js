// A node with its devices as tiles. A tile has a part for each job on the device.

import { html, useRef, useState } from "../vendor/preact-htm.js";
import { lookClass } from "./colour.js";
import { count, percent } from "./format.js";
import { jobAddress, Name } from "./job-name.js";
import { memo } from "./memo.js";
import { NodeHealth } from "./node-health.js";
import { visible } from "./safe-text.js";

const SIGNS = { foreign: "⚑", quarantined: "⚠", avoided: "⊘", paused: "‖", silent: "…", unconfirmed: "…", lost: "✕" };
const MANY = 16; // devices of one node that fill more than two rows of eight

/** `speeds`: job -> speed as a share of its speed alone; `onLook(device)` as one is pointed at. */
export function NodeGrid({ node, speeds, highlighted, onLook, compact }) {
  const [active, setActive] = useState(0);
  const grid = useRef();
  const held = node.devices.filter((device) => device.jobs.length).length;
  const move = (event) => {
    const columns = getComputedStyle(grid.current).gridTemplateColumns.split(" ").length;
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    const first = { Home: 0, End: node.devices.length - 1 }[event.key];
    if (by === undefined && first === undefined) return;
    event.preventDefault();
    const next = first ?? Math.min(node.devices.length - 1, Math.max(0, active + by));
    setActive(next);
    grid.current.children[next]?.focus();
  };
  const stuck = Object.entries(node.stuck ?? {});
  return html`<section class="node card" aria-label=${`Node ${node.name}`}>
    <header class="row"><h2 class="grow"><${Name} text=${node.name} /></h2>
      <span class="quiet">${visible(node.device_type)}${node.rack && ` · rack ${visible(node.rack)}`} · ${held} of ${count(node.devices.length, "device")} held</span></header>
    <${NodeHealth} node=${node} />
    <div class="tiles ${compact ? "compact" : ""} ${node.devices.length > MANY ? "many" : ""}" role="group" aria-label="Devices; arrow keys move" ref=${grid} onKeyDown=${move}>
      ${node.devices.map(
        (device, index) => html`<${Tile} key=${device.name} device=${device} index=${index} reachable=${index === active}
          speed=${device.jobs.length > 1 ? device.jobs.map((job) => speeds.get(job) ?? "").join() : ""}
          dim=${highlighted !== null && !device.jobs.includes(highlighted)} onLook=${onLook} onActive=${setActive} />`,
      )}
    </div>
    ${stuck.map(([job, because]) => html`<p class="warned">${SIGNS.quarantined} job ${visible(job)}: ${visible(because)}</p>`)}
  </section>`;
}

const Tile = memo(({ device, index, reachable, speed, dim, onLook, onActive }) => {
  const speeds = speed.split(",");
  const look = () => onLook(device.name);
  const open = () => device.jobs.length && (location.hash = jobAddress(device.jobs[0]));
  const kind = device.jobs.length ? "held" : device.state;
  const shut = Boolean(device.because) || !["free", "held"].includes(device.state);
  return html`<button class="tile ${kind} ${dim ? "dim" : ""} ${shut ? "shut" : ""}" tabindex=${reachable ? 0 : -1}
    aria-label=${words(device, speeds)} onMouseEnter=${look} onFocus=${() => (onActive(index), look())} onClick=${open}>
    <span class="parts">${device.jobs.map(
      (job, part) => html`<span class="part ${lookClass(job)}" key=${job}><span class="label">${visible(job)}</span>
        ${speeds[part] && html`<span class="label speed">${Number(speeds[part]).toFixed(2)}×</span>`}</span>`,
    )}</span>
    <span class="corner">${device.number}</span>
    ${shut && html`<span class="sign" aria-hidden="true">${SIGNS[device.state] ?? (device.state === "held" ? "⊘" : "⚠")}</span>`}
    ${device.busy !== null && device.busy !== undefined && html`<span class="busy" style=${{ width: percent(device.busy).replace(" ", "") }}></span>`}
  </button>`;
});

function words(device, speeds) {
  const jobs = device.jobs.map((job, index) => `job ${job}${speeds[index] ? ` at ${speeds[index]} of its speed alone` : ""}`);
  return `Device ${device.name}: ${device.jobs.length ? jobs.join(" and ") : device.state}${device.because ? `, ${device.because}` : ""}`;
}
