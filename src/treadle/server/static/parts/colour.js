// The look of a job: a colour and a pattern that stay the same wherever it is shown.
//
// Ids that are near get colours that are far apart. A job that comes to devices while another that
// holds some has the same look is given one that is free. Colour is never alone: a job's id stands
// beside it, and the pattern tells jobs of one colour apart.

const COLOURS = 12;
const PATTERNS = 4;
const LOOKS = COLOURS * PATTERNS;
const GIVEN_MAX = 5000;

const given = new Map(); // job -> its look, of those that held devices in this tab
const holders = new Map(); // look -> the job that holds devices and has it
const holding = new Set(); // jobs

/** The numbers of its colour (--job-N of style.css) and of its pattern. */
export function lookOf(id) {
  const look = given.get(id) ?? hashOf(String(id)) % LOOKS;
  return { colour: (look * 5) % COLOURS, pattern: Math.floor(look / COLOURS) };
}

/** Classes for an element with the job's colour: style.css has them. */
export function lookClass(id) {
  const { colour, pattern } = lookOf(id);
  return `job-colour c${colour} p${pattern}`;
}

/** A job holds devices from now on, or does no more: then others may have its look. */
export function keepLook(id, holds) {
  if (holds === holding.has(id)) return;
  const known = given.get(id);
  if (!holds) {
    holding.delete(id);
    if (holders.get(known) === id) holders.delete(known);
    return;
  }
  holding.add(id);
  let look = known ?? hashOf(String(id)) % LOOKS;
  for (let tried = 0; tried < LOOKS && holders.has(look); tried += 1) look = (look + 1) % LOOKS;
  if (!holders.has(look)) holders.set(look, id);
  given.delete(id);
  given.set(id, look);
  if (given.size > GIVEN_MAX) forgetOne();
}

function forgetOne() {
  for (const id of given.keys()) {
    if (holding.has(id)) continue;
    given.delete(id);
    return;
  }
}

function hashOf(text) {
  const digits = /(\d+)(?!.*\d)/.exec(text);
  let hash = digits ? Number(digits[1]) % 100000 : 0;
  for (const letter of text.replace(/\d/g, "")) hash = (hash * 31 + letter.codePointAt(0)) % 100003;
  return hash;
}
