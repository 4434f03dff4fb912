// What a page reads from the API, read again when it may have changed.

import { useEffect, useRef, useState } from "../vendor/preact-htm.js";
import { state, subscribe } from "../state.js";

const EVERY_MS = 3000; // at most
const AGAIN_MS = 10000; // after a refusal, whatever changes

/** { value, problem, isReading }: the answer of `read`, again after changes of these topics. */
export function useReading(read, topics, wanted = "") {
  const [found, setFound] = useState({ value: null, problem: null, isReading: true });
  const newest = useRef(read);
  newest.current = read;
  useEffect(() => {
    const aborted = new AbortController();
    let [timer, last_ms, isOpen, isOld] = [null, -EVERY_MS, false, false];
    const look = async () => {
      clearTimeout(timer);
      timer = null;
      [last_ms, isOpen, isOld] = [performance.now(), true, false];
      try {
        const value = await newest.current(aborted.signal);
        if (!aborted.signal.aborted) setFound({ value, problem: null, isReading: false });
      } catch (problem) {
        if (aborted.signal.aborted) return;
        setFound((before) => ({ value: before.value, problem, isReading: false }));
        timer = setTimeout(look, AGAIN_MS);
      }
      isOpen = false;
      if (isOld) later();
    };
    const later = () => {
      isOld = true; // What changes while it is read may not be in the answer.
      if (isOpen || aborted.signal.aborted || !state.session) return;
      clearTimeout(timer);
      timer = setTimeout(look, Math.max(0, last_ms + EVERY_MS - performance.now()));
    };
    setFound((before) => ({ ...before, isReading: true }));
    look();
    const stops = topics.map((topic) => subscribe(topic, later));
    return () => {
      aborted.abort();
      clearTimeout(timer);
      stops.forEach((stop) => stop());
    };
  }, [wanted]);
  return found;
}
