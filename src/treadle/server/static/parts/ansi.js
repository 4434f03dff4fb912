// Colours of a terminal, as classes on spans of text; every other escape sequence is dropped.
//
// A carriage return starts the line over, as in a terminal, so a progress bar is one line.

import { visible } from "./safe-text.js";

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
// Colours and the rest of CSI; OSC and other strings up to their end; two-letter escapes.
const ESCAPE = /\u001b\[([0-9;:?<=>]*)[ -/]*([@-~])|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|\u001b[ -/]*[0-~]/g;

export const PLAIN = Object.freeze({ colour: "", back: "", bold: false, faint: false, italic: false, underlined: false });

/** Spans of a line that begins in this style: [{text, classes}], and the style it ends in. */
export function spansOf(line, before = PLAIN) {
  const spans = [];
  let style = before;
  let from = 0;
  const add = (text) => {
    // What stands before a carriage return was overwritten.
    const start = text.replace(/\r+$/, "").lastIndexOf("\r");
    if (start >= 0) spans.length = 0;
    const shown = visible(text.slice(start + 1).replace(/\r+$/, ""));
    if (shown) spans.push({ text: shown, classes: classesOf(style) });
  };
  for (const found of line.matchAll(ESCAPE)) {
    add(line.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[2] === "m") style = styled(style, found[1]);
  }
  add(line.slice(from));
  return { spans, style };
}

/** The text without any escape sequence, to search in. */
export const plainText = (line) => spansOf(line).spans.map((span) => span.text).join("");

const CHANGES = {
  1: { bold: true }, 2: { faint: true }, 3: { italic: true }, 4: { underlined: true },
  22: { bold: false, faint: false }, 23: { italic: false }, 24: { underlined: false }, 39: { colour: "" }, 49: { back: "" },
};

function styled(style, text) {
  const codes = text.split(/[;:]/).map(Number);
  let next = style;
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index];
    if (code === 38 || code === 48) {
      const colour = codes[index + 1] === 5 ? named(codes[index + 2]) : "";
      next = { ...next, [code === 38 ? "colour" : "back"]: colour };
      index += codes[index + 1] === 5 ? 2 : 4;
    } else next = changedBy(next, code);
  }
  return next;
}

function changedBy(style, code) {
  if (!code) return PLAIN;
  if (CHANGES[code]) return { ...style, ...CHANGES[code] };
  const tens = Math.floor(code / 10);
  const name = NAMES[code % 10] ?? "";
  if (tens === 3 || tens === 9) return { ...style, colour: name };
  if (tens === 4 || tens === 10) return { ...style, back: name };
  return style;
}

/** Of the 256 colours the first sixteen have names; the others come as the nearest of these. */
function named(number) {
  if (number < 16) return NAMES[number % 8];
  if (number >= 232) return number < 244 ? "black" : "white";
  const cube = number - 16;
  const bits = [Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((each) => (each >= 3 ? 1 : 0));
  return NAMES[bits[0] + 2 * bits[1] + 4 * bits[2]];
}

function classesOf({ colour, back, bold, faint, italic, underlined }) {
  return [colour && `fg-${colour}`, back && `bg-${back}`, bold && "bold", faint && "faint", italic && "italic", underlined && "underlined"].filter(Boolean).join(" ");
}
