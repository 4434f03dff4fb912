// Requests to the public API. A refusal becomes a Problem whose message is a sentence.
//
// The session's cookie counts only with its CSRF token, on reads too: a browser sends cookies to
// every port of a host, and what localStorage keeps to one port alone.

import { sentence } from "./parts/safe-text.js";
import { setSession, state } from "./state.js";

const ROOT = "/api/v1";
const CSRF = "treadle-csrf";

let ownCsrf = ""; // for a browser that keeps nothing

function csrf() {
  try {
    return localStorage.getItem(CSRF) ?? ownCsrf;
  } catch {
    return ownCsrf;
  }
}

function keepCsrf(value) {
  ownCsrf = value;
  try {
    if (value) localStorage.setItem(CSRF, value);
    else localStorage.removeItem(CSRF);
  } catch {
    // It lasts as long as this tab, then.
  }
}

/** Begin a session with a token or the code of a link. */
export async function logIn(shown) {
  const session = await post("/session", shown);
  keepCsrf(session.csrf);
  setSession(session);
}

export async function logOut() {
  try {
    await remove("/session");
  } catch (error) {
    if (error.status !== 401) throw error;
  }
  keepCsrf("");
  setSession(null);
}

export class Problem extends Error {
  constructor({ status = 0, code = "", detail, hint = "" }) {
    super(detail);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }

  /** The whole of it, for people. */
  get sentence() {
    const ended = (text) => `${sentence(text.replaceAll("`", ""))}${/[.?!]$/.test(text) ? "" : "."}`;
    return [this.message, this.hint].filter(Boolean).map(ended).join(" ");
  }
}

/** A path of the API with its query; empty values are left out, lists are repeated. */
export function address(path, query = {}) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") found.append(name, each);
    }
  }
  const text = found.toString();
  return `${ROOT}${path}${text ? `?${text}` : ""}`;
}

/** The answer itself: for streams and downloads. */
export async function request(method, path, { query, body, signal } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (csrf()) headers["X-CSRF-Token"] = csrf();
  const asker = state.session;
  let answer;
  try {
    answer = await fetch(address(path, query), {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "the daemon does not answer", hint: "is `treadle up` still running?" });
  }
  if (answer.ok) return answer;
  const problem = await problemOf(answer);
  if (problem.status === 401 && state.session === asker && path !== "/session") setSession(null, { expired: true });
  throw problem;
}

export async function get(path, query, signal) {
  return read(await request("GET", path, { query, signal }));
}

export async function post(path, body = {}) {
  return read(await request("POST", path, { body }));
}

export async function remove(path) {
  return read(await request("DELETE", path));
}

async function read(answer) {
  try {
    const text = await answer.text();
    return text ? JSON.parse(text) : null;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "the daemon's answer broke off" });
  }
}

async function problemOf(answer) {
  try {
    const { detail, hint, code } = await answer.json();
    if (detail) return new Problem({ status: answer.status, code, detail, hint });
  } catch {
    // Not one of our problems: a proxy between may answer something else.
  }
  return new Problem({ status: answer.status, detail: `the server answered with status ${answer.status}` });
}
