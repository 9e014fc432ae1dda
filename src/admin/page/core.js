"use strict";

// The document, the API, and the dialog: what every view uses.

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

const number = (value, digits = 0) =>
  value === null || value === undefined ? "–" : (typeof value === "string" ? BigInt(value) : value).toLocaleString("en", { maximumFractionDigits: digits });

const time = (text) => (text ? new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" }) : "–");

const badges = { active: "good", banned: "caution", expired: "", revoked: "bad", ready: "good", degraded: "caution", failed: "bad" };
const badge = (state) => element("span", { class: `badge ${badges[state] ?? ""}` }, state);

/** The failure of a request, with the message of the server. */
class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Parses JSON. An integer that may be too large for a number becomes a string: rounded, it would be the ID of another animal. */
const parse = (text) => JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) => (/^-?\d{16,}$/.test(token) ? `"${token}"` : token)));

/** Calls the API, with a body that may be JSON already. Returns the body, with the response. */
async function call(method, path, body) {
  let response;
  try {
    response = await fetch(`api/${path}`, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    });
  } catch {
    throw new Failure(0, "The server does not respond.");
  }
  const data = response.status === 204 ? null : await response.text().then(parse).catch(() => null);
  if (!response.ok) {
    if (response.status === 401 && path !== "session") showLogin();
    throw new Failure(response.status, data?.message ?? `The server responded with ${response.status}.`);
  }
  return { data, response };
}

/** Shows a failure that no form shows. */
function report(failure) {
  $("problem").textContent = failure.message;
  $("problem").hidden = false;
}

const settled = () => ($("problem").hidden = true);

const usable = (one) => one?.isConnected && !one.disabled && one.checkVisibility();

/** Moves the focus to the first of these places that can have it, after a change of the page; unless it was moved elsewhere meanwhile. */
function keepFocus(from, ...others) {
  const focused = document.activeElement;
  if (focused !== document.body && focused !== from && usable(focused)) return;
  [from, ...others].find(usable)?.focus();
}

/**
 * Asks for confirmation, and calls `act` when it is given. The dialog stays open until that is done, and shows what it returns.
 * Then the focus returns to what opened it; or, if that is gone, to what is next to it.
 */
function ask({ title, body, submit, danger, act }) {
  const dialog = $("dialog");
  const from = document.activeElement;
  const [row, region] = [from.closest("tr")?.id, from.closest(".scroll")];
  const [form, problem] = [dialog.querySelector("form"), dialog.querySelector(".problem")];
  const button = $("dialog-submit");
  $("dialog-title").textContent = title;
  $("dialog-body").replaceChildren(...body);
  problem.textContent = "";
  button.textContent = submit;
  button.className = danger ? "danger" : "";
  button.hidden = false;
  $("dialog-cancel").textContent = "Cancel";
  let busy = false;
  form.onsubmit = async (event) => {
    event.preventDefault();
    // A disabled button would lose the focus.
    if (busy) return;
    busy = true;
    try {
      const shown = await act(new FormData(form));
      if (shown) {
        $("dialog-title").textContent = shown.title;
        $("dialog-body").replaceChildren(...shown.body);
        button.hidden = true;
        $("dialog-cancel").textContent = "Close";
        (dialog.querySelector("#dialog-body button") ?? $("dialog-cancel")).focus();
      } else {
        dialog.close();
      }
    } catch (failure) {
      problem.textContent = failure.message;
    } finally {
      busy = false;
    }
  };
  dialog.onclose = () => {
    // The event comes later: the dialog may have been opened again.
    if (dialog.open) return;
    // What was shown once must not stay in the document.
    $("dialog-body").replaceChildren();
    const near = (row ? $(row) : from.parentElement)?.querySelectorAll("button") ?? [];
    keepFocus(from, ...near, region, $("main"));
  };
  dialog.showModal();
}

$("dialog-cancel").addEventListener("click", () => $("dialog").close());

/** A secret that is shown once, with a button that copies it. */
function secret(text) {
  const copy = element("button", {
    type: "button",
    class: "quiet",
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        copy.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(shown);
        copy.textContent = "Press Ctrl+C to copy";
      }
    },
  }, "Copy");
  const shown = element("code", { class: "secret", id: "secret" }, text);
  return [element("p", {}, "This is the only time that the secret is shown."), shown, element("p", {}, copy)];
}

const field = (label, input) => {
  input.id = `field-${input.name}`;
  return [element("label", { for: input.id }, label), input];
};

const choice = (name, values, selected) =>
  element("select", { name }, ...values.map((value) => element("option", { value, selected: value === selected }, value)));
