// What a page reads from the API, read again when it may have changed.

import { useEffect, useRef, useState } from "../vendor/preact-htm.js";
import { state, subscribe } from "../state.js";

const EVERY_MS = 3000; // at most

/** { value, problem, isReading }: the answer of `read`, again after changes of these topics. */
export function useReading(read, topics, wanted = "") {
  const [found, setFound] = useState({ value: null, problem: null, isReading: true });
  const newest = useRef(read);
  newest.current = read;
  useEffect(() => {
    const aborted = new AbortController();
    let [timer, last_ms, isOpen] = [null, -EVERY_MS, false];
    const look = async () => {
      timer = null;
      [last_ms, isOpen] = [performance.now(), true];
      try {
        const value = await newest.current(aborted.signal);
        if (!aborted.signal.aborted) setFound({ value, problem: null, isReading: false });
      } catch (problem) {
        if (!aborted.signal.aborted) setFound((before) => ({ value: before.value, problem, isReading: false }));
      }
      isOpen = false;
    };
    const later = () => {
      if (timer !== null || isOpen || document.hidden || !state.session) return;
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
