// Something that is read at once, and again now and then while the tab is seen.

import { useEffect } from "../vendor/preact-htm.js";

/** `read(isWanted)`: whether the answer is still wanted when it comes; `every_ms` 0: only once. */
export function useAgain(read, every_ms, turns) {
  useEffect(() => {
    let wanted = true;
    const look = () => read(() => wanted);
    look();
    const timer = every_ms ? setInterval(() => !document.hidden && look(), every_ms) : 0;
    return () => {
      wanted = false;
      clearInterval(timer);
    };
  }, turns);
}
