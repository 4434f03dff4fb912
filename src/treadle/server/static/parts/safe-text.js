// Text of users, made harmless: what would be invisible or reorder the line is shown as a sign.
//
// Everything still goes to the page as text nodes; this is against tricks within the text.

const BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069";
const UNSEEN = "\u00ad\u180e\u200b\u2060-\u2064\ufeff\u2028\u2029\ufff9-\ufffb";
const CONTROL = "\u0000-\u001f\u007f-\u009f";
const TAGS = "\\u{e0000}-\\u{e007f}";
const TRICKS = new RegExp(`[${CONTROL}${BIDI}${UNSEEN}${TAGS}]`, "gu");

/** The text with a visible sign for each control, bidirectional or invisible character. */
export function visible(text) {
  return String(text ?? "").replace(TRICKS, signOf);
}

/** The same with a capital letter first, unless it begins with a name such as node:0 or a command. */
export function sentence(text) {
  const named = /^(\S*[\d:_/]|treadle )/.test(text);
  return visible(named ? text : text.charAt(0).toUpperCase() + text.slice(1));
}

function signOf(letter) {
  const code = letter.codePointAt(0);
  if (code === 9) return "    ";
  if (code < 32) return String.fromCodePoint(0x2400 + code);
  if (code === 127) return "\u2421";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
