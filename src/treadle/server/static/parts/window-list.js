// A list of which only the visible rows are in the document, however long it is.
//
// Rows have one height. The list keeps one active row for the keyboard; the rows are drawn by the
// caller, who gets the number of the row and whether it is active.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.js";

const BEYOND = 8; // rows drawn above and below what is visible
const HEIGHT_MAX = 8_000_000; // of an element, in pixels: browsers have a limit of about 16 million

/**
 * `rows`: how many; `draw(index, active)`; `active`, `onActive(index)`; `onKey(event, index)` for
 * other keys; `stick`: stay at the end as rows are added; `head`: what stays above the rows, with
 * its height; `grid`: rows are rows of a grid, and the active one is told to screen readers.
 */
export function WindowList({ rows, height, draw, active = -1, onActive, onKey, stick = false, onStick, label, head, head_px = 0, grid = false }) {
  const box = useRef();
  const [view, setView] = useState({ top: 0, tall: 600 });
  const whole = Math.min(rows * height, HEIGHT_MAX);
  const scale = rows * height > HEIGHT_MAX ? (rows * height) / HEIGHT_MAX : 1;
  const measure = () => {
    const { scrollTop, clientHeight } = box.current;
    setView((before) => (before.top === scrollTop && before.tall === clientHeight ? before : { top: scrollTop, tall: clientHeight }));
  };
  useEffect(() => {
    const watcher = new ResizeObserver(measure);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (stick) box.current.scrollTop = box.current.scrollHeight;
  }, [stick, rows]);
  useLayoutEffect(() => {
    if (active < 0) return;
    const top = (active * height) / scale;
    const { scrollTop, clientHeight } = box.current;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + height > scrollTop + clientHeight - head_px) box.current.scrollTop = top + height - clientHeight + head_px;
  }, [active]);
  const scrolled = () => {
    measure();
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    onStick?.(scrollTop + clientHeight >= scrollHeight - height);
  };
  const first = Math.max(0, Math.floor((view.top * scale) / height) - BEYOND);
  const last = Math.min(rows, Math.ceil((view.top * scale + view.tall) / height) + BEYOND);
  // Each row has its place for itself: a row that comes or goes moves no other, and only it is painted.
  const start = (first * height) / scale;
  const shown = [];
  for (let index = first; index < last; index += 1) {
    const place = { top: `${start + (index - first) * height}px` };
    shown.push(html`<div class="placed" role="presentation" key=${index} style=${place}>${draw(index, index === active)}</div>`);
  }
  const key = (event) => {
    const page = Math.max(1, Math.floor(view.tall / height) - 1);
    const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: rows - 1 }[event.key];
    if (to !== undefined && onActive && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      onActive(Math.min(rows - 1, Math.max(0, to)), event);
    } else onKey?.(event, active);
  };
  const names = grid
    ? { role: "grid", "aria-rowcount": rows + 1, "aria-multiselectable": "true", "aria-activedescendant": active >= 0 ? `row-${active}` : undefined }
    : { role: "log", "aria-live": "off" };
  return html`<div class="window-list" ref=${box} ...${names} aria-label=${label} tabindex="0" onScroll=${scrolled} onKeyDown=${key}>
    ${head}
    <div class="whole" role="presentation" style=${{ height: `${whole}px` }}>${shown}</div>
  </div>`;
}
