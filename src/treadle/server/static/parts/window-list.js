// A list of which only the visible rows are in the document, however long it is.
//
// Rows have one height. The list keeps one active row for the keyboard; the rows are drawn by the
// caller, who gets the number of the row and whether it is active. Rows come and go several at a
// time, so that most frames of a scroll paint nothing anew.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.js";

const STEP = 12; // rows that come and go at a time
const BEYOND = 6; // rows drawn above and below what is visible, at least

/**
 * `rows`: how many; `draw(index, active)`; `active`, `onActive(index)`; `onKey(event, index)` for
 * other keys; `reveal`: the active row is scrolled to when this is another value; `stick`: stay at
 * the end as rows are added; `head`: what stays above the rows, with its height; `grid`: rows are rows of a grid, and the active one is told to screen readers.
 */
export function WindowList({ rows, height, draw, active = -1, reveal = active, onActive, onKey, stick = false, onStick, label, head, head_px = 0, grid = false }) {
  const box = useRef();
  const [tall, setTall] = useState(600);
  const [step, setStep] = useState(0);
  useEffect(() => {
    const watcher = new ResizeObserver(() => setTall(box.current.clientHeight));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (stick) box.current.scrollTop = box.current.scrollHeight;
  }, [stick, rows]);
  useLayoutEffect(() => {
    if (active < 0) return;
    const top = active * height;
    const { scrollTop, clientHeight } = box.current;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + height > scrollTop + clientHeight - head_px) box.current.scrollTop = top + height - clientHeight + head_px;
  }, [reveal]);
  const scrolled = () => {
    const { scrollTop } = box.current;
    setStep(Math.floor(scrollTop / height / STEP));
    onStick?.(scrollTop + box.current.clientHeight >= box.current.scrollHeight - height);
  };
  const first = Math.max(0, step * STEP - BEYOND);
  const last = Math.min(rows, (step + 1) * STEP + Math.ceil(tall / height) + BEYOND);
  // Each row has its place for itself: a row that comes or goes moves no other, and only it is painted.
  const shown = [];
  for (let index = first; index < last; index += 1) {
    shown.push(html`<div class="placed" role="presentation" key=${index} style=${`top:${index * height}px`}>${draw(index, index === active)}</div>`);
  }
  const key = (event) => {
    const page = Math.max(1, Math.floor(tall / height) - 1);
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
    <div class="whole" role="presentation" style=${`height:${rows * height}px`}>${shown}</div>
  </div>`;
}
