// The lines of a log that grows, bounded: the oldest go when there are too many.

import { PLAIN, spansOf } from "./ansi.js";

const LINES_MAX = 100000;
const LINE_LENGTH_MAX = 4000; // characters; longer lines are cut where they are shown
const LINE_KEPT_MAX = 100000; // of a line that never ends

export class LogLines {
  constructor() {
    this.lines = [];
    this.dropped = 0; // lines before the first that is kept
    this.open = false; // the last line has no end yet
    this.cut = 0; // characters of it that are not kept
    this.drawn = new Map(); // line -> {line, spans, style}
  }

  get length() {
    return this.lines.length;
  }

  add(text) {
    const parts = text.split("\n");
    if (this.open && this.lines.length) {
      this.drawn.delete(this.lines.length - 1);
      const line = this.lines.at(-1) + parts.shift();
      const surplus = line.length > LINE_KEPT_MAX ? line.length - LINE_LENGTH_MAX : 0;
      this.cut += surplus;
      this.lines[this.lines.length - 1] = surplus ? line.slice(surplus) : line;
    }
    if (parts.length) this.cut = 0;
    for (const part of parts) this.lines.push(part);
    this.open = true;
    if (this.lines.at(-1) === "") {
      this.lines.pop();
      this.open = false;
    }
    const surplus = this.lines.length - LINES_MAX;
    if (surplus > 0) {
      this.lines.splice(0, surplus);
      this.dropped += surplus;
      this.drawn.clear();
    }
  }

  /** Spans of a line. A colour that an earlier line left on goes on only within what is near. */
  spans(index) {
    const known = this.drawn.get(index);
    if (known) return known.spans;
    const line = this.lines[index];
    const gone = this.open && index === this.lines.length - 1 ? this.cut : 0;
    const unseen = gone + Math.max(0, line.length - LINE_LENGTH_MAX);
    const found = spansOf(line.slice(-LINE_LENGTH_MAX), this.drawn.get(index - 1)?.style ?? PLAIN);
    if (unseen) found.spans.unshift({ text: `⟨${unseen} characters not shown⟩ `, classes: "faint" });
    if (this.drawn.size > 5000) this.drawn.clear();
    this.drawn.set(index, found);
    return found.spans;
  }
}
