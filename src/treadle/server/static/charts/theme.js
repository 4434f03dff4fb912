// Colours of the page for charts on a canvas, read again when the theme changes.

import { useLayoutEffect, useReducer } from "../vendor/preact-htm.js";

const known = new Map();
let probe = null;

/** The colour of a CSS variable such as --text, as a canvas understands it. */
export function cssColour(name) {
  if (known.has(name)) return known.get(name);
  // A variable may be a function of others; only the colour of an element is worked out.
  if (!probe) {
    probe = document.createElement("i");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${name})`;
  known.set(name, getComputedStyle(probe).color);
  return known.get(name);
}

/** A number that is another one after each change of the theme. */
export function useTheme() {
  const [number, next] = useReducer((count) => count + 1, 0);
  useLayoutEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const change = () => {
      known.clear();
      next();
    };
    dark.addEventListener("change", change);
    addEventListener("treadle-theme", change); // The page's own button for light and dark.
    return () => {
      dark.removeEventListener("change", change);
      removeEventListener("treadle-theme", change);
    };
  }, []);
  return number;
}

/** Calls draw with the width of an element, now and whenever that changes. */
export function useWidth(node, draw) {
  useLayoutEffect(() => {
    let last = 0;
    const look = () => {
      if (!node.current?.clientWidth || node.current.clientWidth === last) return;
      last = node.current.clientWidth;
      draw.current(last);
    };
    // Drawing within the observer's own call would count as a loop.
    const observer = new ResizeObserver(() => setTimeout(look, 0));
    observer.observe(node.current);
    look();
    return () => observer.disconnect();
  }, []);
}
