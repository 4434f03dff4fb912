// The look of a job: a colour and a pattern that stay the same wherever it is shown.
//
// Ids that are near get colours that are far apart. Colour is never alone: a job's id stands
// beside it, and the pattern tells jobs of one colour apart.

const COLOURS = 12;
const PATTERNS = 4;

/** The numbers of its colour (--job-N of style.css) and of its pattern. */
export function lookOf(id) {
  const hash = hashOf(String(id));
  return { colour: (hash * 5) % COLOURS, pattern: Math.floor(hash / COLOURS) % PATTERNS };
}

/** Classes for an element with the job's colour: style.css has them. */
export function lookClass(id) {
  const { colour, pattern } = lookOf(id);
  return `job-colour c${colour} p${pattern}`;
}

function hashOf(text) {
  const digits = /(\d+)(?!.*\d)/.exec(text);
  let hash = digits ? Number(digits[1]) % 100000 : 0;
  for (const letter of text.replace(/\d/g, "")) hash = (hash * 31 + letter.codePointAt(0)) % 100003;
  return hash;
}
