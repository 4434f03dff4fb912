// Light, dark, or as the system says.

import { html, useState } from "../vendor/preact-htm.js";

const NAMES = { "": "system", light: "light", dark: "dark" };
const NEXT = { "": "light", light: "dark", dark: "" };
const SIGNS = { "": "◐", light: "○", dark: "●" };

export function ThemeButton() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "");
  const choose = () => {
    const next = NEXT[theme];
    if (next) document.documentElement.dataset.theme = next;
    else delete document.documentElement.dataset.theme;
    try {
      localStorage.setItem("treadle-theme", next);
    } catch {
      // It lasts for this visit then.
    }
    setTheme(next);
    dispatchEvent(new Event("treadle-theme")); // Charts on a canvas take the new colours.
  };
  const label = `Theme: ${NAMES[theme]}. Change to ${NAMES[NEXT[theme]]}`;
  return html`<button class="plain theme" onClick=${choose} aria-label=${label} title=${label}>${SIGNS[theme]}</button>`;
}
