// Marks of logarithmic axes.

import { unitOf } from "../charts/axes.js";

const [MINUTE, HOUR, DAY] = [60, 3600, 86400];
const TIME_MARKS = [
  0.001, 0.01, 0.1, 1, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 10 * DAY, 100 * DAY, 1000 * DAY,
];

/** Marks of a logarithmic axis of seconds. */
export function timeMarks(from, to, most) {
  return thinned(TIME_MARKS.filter((mark) => mark >= from && mark <= to), most);
}

/** Marks of a logarithmic axis of numbers. */
export function numberMarks(from, to, most) {
  const marks = [];
  for (let power = Math.floor(Math.log10(from)); 10 ** power <= to; power += 1) {
    for (const factor of [1, 2, 5]) marks.push(Number((factor * 10 ** power).toPrecision(1)));
  }
  const within = marks.filter((mark) => mark >= from && mark <= to);
  if (within.length <= most) return within;
  const powers = within.filter((mark) => Number.isInteger(Number(Math.log10(mark).toFixed(6))));
  return thinned(powers.length > 1 ? powers : within, most);
}

function thinned(marks, most) {
  const every = Math.ceil(marks.length / Math.max(most, 1));
  return marks.filter((_, index) => index % every === 0);
}

/** A mark on a logarithmic axis of seconds. */
export function markFormat(seconds) {
  const [unit, name] = unitOf(seconds, [DAY, HOUR, MINUTE]);
  return `${Number((seconds / unit).toPrecision(3)).toLocaleString("en")} ${name}`;
}
