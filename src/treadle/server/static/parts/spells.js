// Who held what: the cluster at a moment of the past, made from GET /spells.

import { get } from "../api.js";

export const readSpells = (since_at, until_at) => get("/spells", { since_at, until_at });

const covers = (each, at) => (each.from_at ?? -Infinity) <= at && at < (each.to_at ?? Infinity);

/** Nodes with devices in the shape of GET /nodes, as they were; nothing measured is known. */
export function nodesAt(page, at) {
  if (page.begins_at !== null && at < page.begins_at) return []; // Nothing is known of it.
  const holders = new Map();
  for (const spell of page.spells) {
    if (!covers(spell, at)) continue;
    for (const device of spell.devices) holders.set(device, [...(holders.get(device) ?? []), spell]);
  }
  const closed = new Map(page.closed.filter((each) => covers(each, at)).map((each) => [each.device, each]));
  return page.nodes.filter((node) => covers(node, at)).map((node) => ({
    name: node.name,
    device_type: node.device_type,
    devices: Array.from({ length: node.devices }, (_, number) => {
      const name = `${node.name}:${number}`;
      const spells = holders.get(name) ?? [];
      const shut = closed.get(name);
      return {
        name,
        number,
        spells,
        jobs: spells.map((spell) => spell.job),
        state: spells.length ? "held" : shut ? shut.cause : "free",
        because: shut?.because ?? "",
        foreign: [],
      };
    }),
  }));
}

/** [moment, devices held by at least one job] at each change, in order. */
export function occupancy(page) {
  const changes = [];
  for (const spell of page.spells) {
    for (const device of spell.devices) {
      changes.push([spell.from_at, device, 1]);
      if (spell.to_at !== null) changes.push([spell.to_at, device, -1]);
    }
  }
  // At one moment the leaving come first, so that a hand-over is not counted twice.
  changes.sort((a, b) => a[0] - b[0] || a[2] - b[2]);
  const holders = new Map();
  const points = [];
  let held = 0;
  for (const [at, device, by] of changes) {
    const before = holders.get(device) ?? 0;
    holders.set(device, before + by);
    if (before === 0 && by > 0) held += 1;
    if (before === 1 && by < 0) held -= 1;
    if (points.at(-1)?.[0] === at) points.at(-1)[1] = held;
    else points.push([at, held]);
  }
  return points;
}
