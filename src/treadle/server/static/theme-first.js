// The chosen theme, set before anything is drawn so that the page does not flash.
try {
  const chosen = localStorage.getItem("treadle-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser may refuse storage; the page then follows the system.
}
