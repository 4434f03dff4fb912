// How fast jobs run beside others, where it was measured: asked for those that share a device.

import { get } from "../api.js";
import { useState } from "../vendor/preact-htm.js";
import { useAgain } from "./again.js";

const ASKED_MAX = 24;
const AGAIN_MS = 15000;

/** job -> its speed now as a share of its speed alone; jobs without a measurement are not in it. */
export function useSpeeds(jobs) {
  const [speeds, setSpeeds] = useState(new Map());
  const asked = jobs.slice(0, ASKED_MAX);
  const read = async (isWanted) => {
    const found = await Promise.all(asked.map(speedOf));
    if (isWanted()) setSpeeds(new Map(asked.map((job, index) => [job, found[index]]).filter(([, speed]) => speed)));
  };
  useAgain(read, asked.length ? AGAIN_MS : 0, [asked.join()]);
  return speeds;
}

async function speedOf(job) {
  try {
    const detail = await get(`/jobs/${encodeURIComponent(job)}`);
    const company = detail.attempts.at(-1)?.company ?? [];
    return company.findLast((each) => each.lasts)?.relative ?? null;
  } catch {
    return null; // It has just been pruned, or the daemon does not answer: the frame says so.
  }
}
