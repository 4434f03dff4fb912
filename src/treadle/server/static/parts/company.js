// How fast jobs run beside others, where it was measured: asked for those that share a device.

import { get } from "../api.js";
import { useEffect, useState } from "../vendor/preact-htm.js";

const ASKED_MAX = 24;
const AGAIN_MS = 15000;

/** job -> its speed now as a share of its speed alone; jobs without a measurement are not in it. */
export function useSpeeds(jobs) {
  const [speeds, setSpeeds] = useState(new Map());
  const asked = jobs.slice(0, ASKED_MAX);
  useEffect(() => {
    let wanted = true;
    const read = async () => {
      const found = await Promise.all(asked.map((job) => speedOf(job)));
      if (wanted) setSpeeds(new Map(asked.map((job, index) => [job, found[index]]).filter(([, speed]) => speed)));
    };
    if (asked.length) read();
    else setSpeeds(new Map()); // Of a past moment no speed is known.
    const timer = asked.length ? setInterval(() => !document.hidden && read(), AGAIN_MS) : 0;
    return () => {
      wanted = false;
      clearInterval(timer);
    };
  }, [asked.join()]);
  return speeds;
}

async function speedOf(job) {
  try {
    const detail = await get(`/jobs/${encodeURIComponent(job)}`);
    const company = detail.attempts.at(-1)?.company ?? [];
    return company.findLast((each) => each.since_at !== null)?.relative ?? null;
  } catch {
    return null; // It has just been pruned, or the daemon does not answer: the frame says so.
  }
}
