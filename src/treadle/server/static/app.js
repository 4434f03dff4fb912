// The page's frame: routes, navigation, and who is logged in.
//
// A page is a module whose default export is a component; it is loaded when it is first shown and
// is given `args`, the rest of the address after its name, and `query` after a question mark.

import { get, logOut } from "./api.js";
import { ConfirmDialog } from "./parts/confirm.js";
import { count } from "./parts/format.js";
import { ThemeButton } from "./parts/theme.js";
import { Toasts, toastProblem } from "./parts/toast.js";
import { setSession, state, useTopic } from "./state.js";
import { startStream, stopStream } from "./stream.js";
import { html, render, useEffect, useErrorBoundary, useLayoutEffect, useState } from "./vendor/preact-htm.js";

const PAGES = {
  cluster: { title: "Cluster", load: () => import("./pages/cluster.js") },
  jobs: { title: "Jobs", load: () => import("./pages/jobs.js") },
  queue: { title: "Queue", load: () => import("./pages/queue.js") },
  decisions: { title: "Decisions", load: () => import("./pages/decisions.js") },
  "what-if": { title: "What if", load: () => import("./pages/whatif.js") },
  usage: { title: "Usage", load: () => import("./pages/usage.js") },
  login: { title: "Log in", load: () => import("./pages/login.js"), hidden: true },
};
const AGAIN_MS = 5000;
const JOB = { title: "Job", load: () => import("./pages/job.js") };

function App() {
  useTopic("session");
  const route = useRoute();
  const [problem, setProblem] = useState("");
  useEffect(() => {
    // A link may have begun another session in the meantime.
    const first = (found) => state.session === undefined && setSession(found);
    let timer = 0;
    const ask = () => get("/session").then(first, (error) => {
      if (error.status === 401) return first(null);
      setProblem(error.sentence ?? String(error));
      timer = setTimeout(ask, AGAIN_MS);
    });
    ask();
    pageOf(route.name, route.args)?.load().catch(() => {});
    return () => clearTimeout(timer);
  }, []);
  const who = state.session?.user;
  useEffect(() => {
    if (!who) return stopStream();
    startStream();
    return stopStream;
  }, [who]);
  if (state.session === undefined && route.name !== "login") return html`<div class="waiting" role="status">${problem || "Loading…"}</div>`;
  const shown = state.session || route.name === "login" ? route : { name: "login", args: [], query: route.query };
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    ${state.session && html`<${Header} current=${shown.name} />`}
    <${Guarded} key=${[shown.name, ...shown.args].join("/")} name=${shown.name}><${Page} ...${shown} /><//>
    <${Toasts} /><${ConfirmDialog} />`;
}

function Header({ current }) {
  return html`<header class="top">
    <a class="brand" href="#/cluster" aria-label="Treadle, cluster">
      <svg viewBox="0 0 16 16" aria-hidden="true"><path d="M3 4.5h10M3 8h6M3 11.5h8" /></svg>Treadle
    </a>
    <nav aria-label="Pages">
      ${Object.entries(PAGES).map(
        ([name, { title, hidden }]) =>
          !hidden && html`<a href=${`#/${name}`} aria-current=${name === current ? "page" : undefined}>${title}</a>`,
      )}
    </nav>
    <${Facts} />
    <${Link} />
    <${ThemeButton} />
    <span class="who quiet" title=${`Logged in as ${state.session.user} (${state.session.role})`}><bdi>${state.session.user}</bdi></span>
    <button class="plain" onClick=${leave}>Log out</button>
  </header>
  <${Trouble} />`;
}

/** How full the cluster is, in one line. */
function Facts() {
  useTopic("status");
  const { status } = state;
  if (!status) return html`<div class="facts"></div>`;
  return html`<div class="facts">
    <span><b>${status.free.toLocaleString("en")}</b><span class="wide"> of ${count(status.devices, "device")}</span> free</span>
    <span><b>${status.running.toLocaleString("en")}</b> running</span>
    <span><b>${status.waiting.toLocaleString("en")}</b> waiting</span>
    <span class="wide">${status.policy}</span>
  </div>`;
}

/** Whether what is shown is live. */
function Link() {
  useTopic("link");
  const { phase, detail } = state.link;
  const words = { open: "live", connecting: "connecting", reconnecting: "reconnecting", idle: "not live" };
  return html`<span class="link ${phase}" role="status" title=${detail}>${words[phase]}</span>`;
}

function Trouble() {
  useTopic("status", "link");
  const { status, link } = state;
  const found = [];
  if (link.phase === "reconnecting") {
    found.push(`What you see is from before: reconnecting, because ${link.detail}.`);
  }
  if (status?.problem) found.push(status.problem);
  if (status?.draining) found.push(`The daemon is stopping; ${count(status.stopping, "job")} must still end.`);
  if (!found.length) return null;
  return html`<div class="trouble" role="alert">${found.map((text) => html`<p>${text}</p>`)}</div>`;
}

function Page({ name, args, query }) {
  const page = pageOf(name, args);
  const [loaded, setLoaded] = useState(null);
  useEffect(() => {
    document.title = `${page ? page.title : "Not found"} · Treadle`;
    setLoaded(null);
    let wanted = true;
    page?.load().then(
      (module) => wanted && setLoaded({ View: module.default }),
      () => wanted && setLoaded({ error: true }),
    );
    return () => (wanted = false);
  }, [page]);
  if (!page) return html`<p class="empty">There is no page ${name}. <a href="#/cluster">Go to the cluster.</a></p>`;
  if (loaded?.error) return html`<p class="empty">This page could not be loaded. Try again when the daemon answers.</p>`;
  if (!loaded) return null;
  return html`<${loaded.View} args=${args} query=${query} />`;
}

const pageOf = (name, args) => (name === "jobs" && args.length ? JOB : Object.hasOwn(PAGES, name) ? PAGES[name] : undefined);

/** A mistake in one page must not take the frame with it; another key removes what it had drawn. */
function Guarded({ name, children }) {
  const [error, reset] = useErrorBoundary((found) => console.error(found));
  return html`<main id="main" tabindex="-1" class=${`page-${name}`} key=${error ? "mistake" : "page"}>
    ${error ? html`<div class="empty"><p>This page made a mistake: ${String(error.message)}.</p>
      <button onClick=${reset}>Show it again</button></div>` : children}</main>`;
}

function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useLayoutEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const [path, text = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [name, ...args] = path.split("/").map(decoded);
  return { name: name || "cluster", args: args.filter(Boolean), query: Object.fromEntries(new URLSearchParams(text)) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

async function leave() {
  try {
    await logOut();
  } catch (error) {
    toastProblem(error);
  }
}

render(html`<${App} />`, document.getElementById("app"));
