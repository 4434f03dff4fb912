// Numbers, moments and lengths of time as people read them.

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

/** Seconds in at most two units: "2 h 5 min". */
export function span(seconds) {
  if (seconds === null || seconds === undefined || !isFinite(seconds)) return "";
  let left = Math.max(0, Math.round(seconds));
  if (left === 0) return seconds > 0 ? "<1 s" : "0 s";
  const first = UNITS.findIndex(([length]) => left >= length);
  const words = [];
  for (const [length, unit] of UNITS.slice(first, first + 2)) {
    const count = Math.floor(left / length);
    left -= count * length;
    if (count) words.push(`${count} ${unit}`);
  }
  return words.join(" ");
}

/** A range of seconds, as rough as such ranges are: "5 to 20 min". */
export function range(low_s, high_s) {
  const [low, high] = [rough(low_s), rough(high_s)];
  if (!low?.[0] && high?.[0]) return `at most ${high.join(" ")}`;
  if (!low) return "";
  if (!high) return `at least ${low.join(" ")}`;
  if (low[0] === high[0] && low[1] === high[1]) return `about ${high.join(" ")}`;
  return low[1] === high[1] ? `${low[0]} to ${high.join(" ")}` : `${low.join(" ")} to ${high.join(" ")}`;
}

/** Two digits and one unit, from 90 s on in minutes and so on; null if it is not known. */
function rough(seconds) {
  if (seconds === null || seconds === undefined || !isFinite(seconds)) return null;
  const [length, unit] = UNITS.find(([each]) => seconds >= 1.5 * each) ?? UNITS.at(-1);
  const many = Math.max(0, seconds) / length;
  return [many < 10 && length > 60 ? Number(many.toFixed(1)) : Math.round(many), unit];
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const shortClock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

/** A moment; with its day where that is not today, and its year where that is not this one. */
export function moment(at, { seconds = true } = {}) {
  const when = new Date(at * 1000);
  const time = (seconds ? clock : shortClock).format(when);
  const today = new Date();
  if (when.toDateString() === today.toDateString()) return time;
  return `${(when.getFullYear() === today.getFullYear() ? day : date).format(when)} ${time}`;
}

export const iso = (at) => new Date(at * 1000).toISOString();

/** Three digits that matter: 0.0123, 1.23, 12.3, 1,230. */
export function number(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

export const percent = (share) => (share === null || share === undefined ? "" : `${Math.round(share * 100)} %`);

/** Memory in GiB, in smaller units below that; nothing has no unit. */
export function gib(value) {
  if (value === null || value === undefined) return "";
  if (value === 0) return "0";
  if (value >= 1) return `${number(value)} GiB`;
  return value >= 0.001 ? `${Math.round(value * 1024)} MiB` : `${Math.round(value * 1048576)} KiB`;
}

export const count = (many, one, more = `${one}s`) => `${many.toLocaleString("en")} ${many === 1 ? one : more}`;

/** The sizes that a job may have: "1 to 4". */
export const asked = (sizes, to = " to ") => (sizes.length > 1 ? `${sizes[0]}${to}${sizes.at(-1)}` : sizes[0]);

/** A command as it would be typed, quoted as Python's shlex does. */
export function typed(command) {
  if (command.length === 3 && command[0] === "/bin/bash" && command[1] === "-c") return command[2];
  return command.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`)).join(" ");
}

/** "host:0-3, host:6": devices of a node in runs. */
export function devices(names) {
  const nodes = new Map();
  for (const name of names) {
    const at = name.lastIndexOf(":");
    const node = name.slice(0, at);
    nodes.set(node, [...(nodes.get(node) ?? []), Number(name.slice(at + 1))]);
  }
  return [...nodes].map(([node, numbers]) => `${node}:${runs(numbers)}`).join(", ");
}

function runs(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const found = [];
  for (const each of sorted) {
    const open = found.at(-1);
    if (open && open[1] === each - 1) open[1] = each;
    else found.push([each, each]);
  }
  return found.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(",");
}
