// Who held which devices during a job's life: its own spells, and who came and went beside it.

import { get } from "../api.js";
import { useState } from "../vendor/preact-htm.js";
import { useAgain } from "./again.js";

const NONE = { own: [], company: [], cut: false };

/** `turn` changes when the job's devices do; nothing is read before it first started. */
export function useJobSpells(id, { from_at, to_at, turn, started }) {
  const [found, setFound] = useState(NONE);
  const read = (isWanted) => started && get("/spells", { since_at: from_at, until_at: to_at }).then(
    (page) => isWanted() && setFound(foundIn(page, id)),
    () => {}, // What was known stays; the frame says that the daemon does not answer.
  );
  useAgain(read, 0, [id, turn, started]);
  return found;
}

/** `company` has the shape of events, for the timeline. */
function foundIn(page, id) {
  const own = page.spells.filter((spell) => spell.job === id);
  const company = new Map();
  for (const other of page.spells) {
    if (other.job === id) continue;
    for (const mine of own) {
      const shared = mine.devices.filter((device) => other.devices.includes(device));
      const [from, to] = [Math.max(mine.from_at, other.from_at), Math.min(mine.to_at ?? Infinity, other.to_at ?? Infinity)];
      if (!shared.length || from >= to) continue;
      const name = `job ${other.job}${other.name ? ` (${other.name})` : ""}`;
      const add = (at, kind, text) => company.set(`${kind} ${other.job} ${at}`, { id: `${kind} ${other.job} ${at}`, at, kind, text, job: id });
      if (other.from_at >= mine.from_at) add(from, "Joined", `${name} joined it on ${shared.join(", ")}`);
      else add(from, "Joined", `it joined ${name} on ${shared.join(", ")}`);
      if (other.to_at !== null && other.to_at === to) add(to, "Left", `${name} left ${shared.join(", ")}`);
    }
  }
  return { own, company: [...company.values()], cut: page.cut };
}
