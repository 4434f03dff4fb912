// Steps and words of the axes: lengths of time, moments of the day, numbers.

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;

export const MARGIN = { left: 58, right: 28 };

/** Steps of an axis of seconds. */
const TIME_STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30,
  ...[1, 2, 5, 10, 20, 30].map((each) => each * MINUTE), ...[1, 2, 3, 6, 12].map((each) => each * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((each) => each * DAY),
];

/** Multiples of a time step between two moments, at most so many; `zero_s` is where they count from. */
export function timeTicks(from, to, most, zero_s = 0) {
  const rough = (to - from) / Math.max(most, 1);
  const step = TIME_STEPS.find((each) => each >= rough) ?? 10 ** Math.ceil(Math.log10(rough));
  const ticks = [];
  const first = Math.ceil((from - zero_s) / step - 1e-9);
  for (let index = first; index <= first + most && zero_s + index * step <= to + step * 1e-6; index += 1) {
    ticks.push(zero_s + index * step + 0); // Adding 0 turns -0 into 0.
  }
  return ticks;
}

/** Lengths of one axis in one unit: 12 h, 24 h, 36 h. */
export function lengthFormat(span) {
  const [unit, name] = unitOf(span, [4 * DAY, 3 * HOUR, 3 * MINUTE]);
  return (seconds) => `${Number((seconds / unit).toFixed(span < 1 ? 4 : 2)).toLocaleString("en")} ${name}`;
}

/** The unit of a length, given from when on days, hours and minutes read better. */
export function unitOf(seconds, [day, hour, minute]) {
  if (seconds >= day) return [DAY, "d"];
  if (seconds >= hour) return [HOUR, "h"];
  return seconds >= minute ? [MINUTE, "min"] : [1, "s"];
}

/** Moments (seconds since 1970) of one axis, by the clock on the wall. */
export function momentFormat(span) {
  const show = (options) => {
    const format = new Intl.DateTimeFormat(undefined, { hourCycle: "h23", ...options });
    return (at) => format.format(new Date(at * 1000));
  };
  if (span > 3 * DAY) return show({ day: "numeric", month: "short" });
  if (span > 12 * HOUR) return show({ weekday: "short", hour: "2-digit", minute: "2-digit" });
  if (span > 5 * MINUTE) return show({ hour: "2-digit", minute: "2-digit" });
  return show({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** Where round moments count from: midnight here, not in Greenwich. */
export function zoneZero(at) {
  return new Date(at * 1000).getTimezoneOffset() * 60;
}
