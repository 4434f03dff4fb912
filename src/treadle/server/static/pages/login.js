// Log in with a token, or by the one-time link that `treadle dashboard` opens.

import { logIn } from "../api.js";
import { state } from "../state.js";
import { html, useEffect, useState } from "../vendor/preact-htm.js";

export default function Login({ args }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const enter = async (body) => {
    setBusy(true);
    setProblem("");
    try {
      await logIn(body);
      // A used link must not stay in the history.
      if (location.hash.startsWith("#/login")) location.replace("#/cluster");
    } catch (error) {
      setProblem(error.sentence);
    }
    setBusy(false);
  };
  const link = args[0];
  useEffect(() => {
    if (link) enter({ link });
    else if (state.session) location.replace("#/cluster");
  }, [link]);
  const submit = (event) => {
    event.preventDefault();
    enter({ token: token.trim() });
  };
  return html`<form class="login card" onSubmit=${submit}>
    <h1>Treadle</h1>
    ${state.expired && html`<p>Your session has ended, as one does after 12 hours, with its token, by a log-out in another tab, or when the daemon is started again. Log in once more; you come back to where you were.</p>`}
    <label for="token">Token</label>
    <input id="token" type="password" autocomplete="current-password" required value=${token}
      onInput=${(event) => setToken(event.target.value)} />
    <button class="primary" disabled=${busy}>${busy ? "Logging in…" : "Log in"}</button>
    <p class="problem" role="alert">${problem}</p>
    <p class="quiet">On the daemon's machine, <code>treadle dashboard</code> opens this page and logs you in.${" "}
      <code>treadle token make NAME</code> makes a token for another machine.</p>
  </form>`;
}
