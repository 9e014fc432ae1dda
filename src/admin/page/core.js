"use strict";

// The document and the API: what every view uses.

const $ = (id) => document.getElementById(id);

/** An element with attributes and children. Text is never parsed as markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== undefined && child !== null));
  return made;
}

/**
 * Updates the children of an element to match these. What is there already stays, with its focus, selection and listeners. Rows are
 * identified by their ID.
 */
function fill(parent, ...children) {
  const fresh = [...element("div", {}, ...children).childNodes];
  fresh.forEach((child, index) => {
    const at = parent.childNodes[index] ?? null;
    const known = child.id ? parent.children.namedItem(child.id) : at;
    if (known?.nodeName !== child.nodeName || known.id !== child.id) parent.insertBefore(child, at);
    else {
      if (known !== at) parent.insertBefore(known, at);
      if (!known.isEqualNode(child)) become(known, child);
    }
  });
  while (parent.childNodes.length > fresh.length) parent.lastChild.remove();
}

/** Makes a node like another one of the same name. */
function become(node, other) {
  if (node.nodeType === Node.TEXT_NODE) {
    node.data = other.data;
    return;
  }
  for (const { name } of [...node.attributes]) if (!other.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of other.attributes) {
    // The policy of the page allows styles, but not as the text of an attribute.
    if (name === "style") node.style.cssText = value;
    else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  fill(node, ...other.childNodes);
}

const number = (value, digits = 0) =>
  value === null || value === undefined ? "–" : (typeof value === "string" ? BigInt(value) : value).toLocaleString("en", { maximumFractionDigits: digits });

const time = (text) => (text ? new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" }) : "–");

/** A time that is shown the same in every time zone, such as a ship date: in UTC, and without the time of day if that is midnight. */
function dateUtc(text) {
  if (!text) return "–";
  const isDay = /T00:00:00(\.0+)?Z$/.test(text);
  const shown = new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: isDay ? undefined : "medium", timeZone: "UTC" });
  return isDay ? shown : `${shown} UTC`;
}

/** A name that users chose: characters in it must not change the direction of the text around it. */
const nameOf = ({ name }) => element("bdi", {}, name);

const badges = { active: "good", banned: "caution", expired: "", revoked: "bad", ready: "good", degraded: "caution", failed: "bad" };
const badge = (state) => element("span", { class: `badge ${badges[state] ?? ""}` }, state);

/** The failure of a request, with its status, which is 0 if there is no response. */
class Failure extends Error {
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code;
  }

  /** Whether there is no such record. A proxy may respond with 404, too. */
  get isUnknown() {
    return this.code === "not_found";
  }
}

/** Parses JSON. An integer that may be too large for a number becomes a string: rounded, it would be the ID of another animal. */
const parse = (text) => JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) => (/^-?\d{16,}$/.test(token) ? `"${token}"` : token)));

/** A message of the server as a sentence: without advice for scripts (`send {…}`), and with the names of fields as words (`perMinute`: per minute). */
function sentence(message) {
  const words = message.replace(/\b[a-z]+[A-Z][a-z]+\b/g, (name) => name.replace(/[A-Z]/, (letter) => ` ${letter.toLowerCase()}`));
  const text = words.replace(/(, or|:) send \{.*$/, "").replace(/\.?$/, ".");
  return text[0].toUpperCase() + text.slice(1);
}

/**
 * How long the page waits for a response, in milliseconds: longer than the server's time limit for a slow read, which is LONG_TIMEOUT in
 * src/store/postgres/timeout.rs. A server that hangs never responds, and browsers wait for minutes.
 */
const RESPONSE_TIMEOUT = 35000;

/** Calls the API, with a body that may be JSON already. Returns the body, with the response. */
async function call(method, path, { body, signal } = {}) {
  // A change in a dialog is not aborted: only its response has the secret of a new key. The dialog shows that it is late.
  const isLimited = method === "GET" || path === "session";
  let response;
  let text;
  try {
    response = await fetch(`api/${path}`, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
      signal: AbortSignal.any([signal, isLimited && AbortSignal.timeout(RESPONSE_TIMEOUT)].filter(Boolean)),
    });
    text = await response.text();
  } catch {
    throw new Failure(0, "The server does not respond.");
  }
  let data = null;
  try {
    data = text && parse(text);
  } catch {
    // A proxy may have responded, with a page.
  }
  if (!response.ok) {
    if (response.status === 401 && path !== "session") showLogin(whyLogIn());
    // The message of a 500 is for clients of the API: it refers them to the operator, who reads this.
    const id = response.status === 500 && response.headers.get("X-Request-Id");
    const problem = id ? `The server failed. The log has the cause, with the ID ${id}.` : data?.message && sentence(data.message);
    throw new Failure(response.status, problem || `The server responded with ${response.status}.`, data?.code);
  }
  return { data, response };
}

/** Shows a failure that no form shows. */
function report({ message }) {
  $("problem").textContent = message;
  $("problem").hidden = false;
}

const hideProblem = () => ($("problem").hidden = true);

const isReadOnly = () => document.body.classList.contains("read-only");

/** Why the token is asked for. A page that was read-only had no session. */
const whyLogIn = () => (isReadOnly() ? "The server now requires the admin token." : "Your session has ended. Log in again.");

const showLost = (lost) => ($("lost").hidden = !lost);

const usable = (one) => one?.isConnected && !one.disabled && one.checkVisibility();

/** Moves the focus to the first of these places that can have it, after a change of the page; unless it was moved elsewhere meanwhile. */
function keepFocus(from, ...others) {
  const focused = document.activeElement;
  if (focused !== document.body && focused !== from && usable(focused)) return;
  [from, ...others].find(usable)?.focus();
}

const field = (label, input) => {
  input.id = `field-${input.name}`;
  return [element("label", { for: input.id }, label), input];
};

const choice = (name, values, selected) =>
  element("select", { name }, ...values.map((value) => element("option", { value, selected: value === selected }, value)));
