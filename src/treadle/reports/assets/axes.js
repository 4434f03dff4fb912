// Scales and their ticks.

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;

const TIME_STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30,
  MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 30 * MINUTE,
  HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
  DAY, 2 * DAY, 5 * DAY, 10 * DAY, 20 * DAY, 50 * DAY, 100 * DAY, 200 * DAY, 500 * DAY, 1000 * DAY,
];
const TIME_MARKS = [
  0.001, 0.01, 0.1, 1, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 10 * DAY, 100 * DAY, 1000 * DAY,
];

function linearScale(from, to, start, end) {
  const width = to - from || 1;
  const scale = (value) => start + ((value - from) / width) * (end - start);
  scale.invert = (pixel) => from + ((pixel - start) / (end - start)) * width;
  return scale;
}

function logScale(from, to, start, end) {
  const inner = linearScale(Math.log(from), Math.log(to), start, end);
  const scale = (value) => inner(Math.log(Math.max(value, from)));
  scale.invert = (pixel) => Math.exp(inner.invert(pixel));
  return scale;
}

// Round steps of 1, 2 and 5, up to a maximum count.
function roundTicks(from, to, most) {
  const rough = (to - from) / Math.max(most, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  return multiples(step, from, to);
}

function timeTicks(from, to, most) {
  const rough = (to - from) / Math.max(most, 1);
  return multiples(TIME_STEPS.find((step) => step >= rough) || TIME_STEPS.at(-1), from, to);
}

function multiples(step, from, to) {
  const ticks = [];
  for (let index = Math.ceil(from / step - 1e-9); index * step <= to * (1 + 1e-9); index += 1) {
    ticks.push(index * step + 0); // Adding 0 turns -0 into 0.
  }
  return ticks;
}

function logTimeTicks(from, to, most) {
  return thinned(TIME_MARKS.filter((mark) => mark >= from && mark <= to), most);
}

function logTicks(from, to, most) {
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

// Moments of one axis in one unit: 12 h, 24 h, 36 h.
function momentFormat(span) {
  const [unit, name] = span > 4 * DAY ? [DAY, "d"]
    : span > 3 * HOUR ? [HOUR, "h"] : span > 3 * MINUTE ? [MINUTE, "min"] : [1, "s"];
  return (seconds) => `${Number((seconds / unit).toFixed(span < 1 ? 4 : 2)).toLocaleString("en")} ${name}`;
}

// A mark on a logarithmic axis of time.
function markFormat(seconds) {
  const [unit, name] = seconds >= DAY ? [DAY, "d"]
    : seconds >= HOUR ? [HOUR, "h"] : seconds >= MINUTE ? [MINUTE, "min"] : [1, "s"];
  return `${Number((seconds / unit).toPrecision(3)).toLocaleString("en")} ${name}`;
}
