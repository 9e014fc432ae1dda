// The page can be read without this. It fills in the address and the key, shows one language at a time, searches, and sends
// requests to the server that it came from, and to no other.
"use strict";

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const one = (selector, within = document) => within.querySelector(selector);

/** An element with these properties and children. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** The URL of the server without /v1, also behind a path prefix. */
const root = new URL(".", location.href).href.replace(/\/$/, "");
for (const place of all("b.origin")) place.textContent = root;

/** What this tab remembers until it is closed. A browser may forbid that: then it is forgotten with the page. */
const memory = {
  get(name) {
    try {
      return sessionStorage.getItem(name) ?? "";
    } catch {
      return "";
    }
  },
  set(name, value) {
    try {
      sessionStorage.setItem(name, value);
    } catch {
      // As above.
    }
  },
};

// The key.
const keys = all("b.key").map((place) => [place, place.textContent]);
const keyForm = one("#key");
const secret = one("#secret");
let key = "";

function useKey(value) {
  key = value;
  memory.set("key", key);
  for (const [place, placeholder] of keys) place.textContent = key || placeholder;
  document.body.classList.toggle("has-key", key !== "");
  one(".forget").hidden = !key;
  // What it shows belongs to the previous key.
  one(".budget").hidden = true;
  showKey("");
}

/** Shows the problem with the key that was entered, if there is one, and then which key is in use. */
function showKey(problem) {
  secret.ariaInvalid = problem !== "";
  one(".state", keyForm).textContent = [problem, key && `In use: ${key.slice(0, 8)}…`].join(" ").trim();
}

keyForm.addEventListener("submit", (event) => {
  event.preventDefault();
  const entered = secret.value.trim();
  if (!entered) return showKey("No key was entered.");
  if (/\W/.test(entered)) return showKey("Not used: a key has only letters from A to Z, digits and _.");
  useKey(entered);
  secret.value = "";
});
one(".forget").addEventListener("click", () => {
  useKey("");
  secret.focus();
});
useKey(memory.get("key"));

// Languages: a choice is made for all examples at once.
function choose(language) {
  for (const tab of all("[role=tab]")) {
    const chosen = tab.dataset.language === language;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
  }
  for (const panel of all("[role=tabpanel]")) panel.toggleAttribute("data-on", panel.dataset.language === language);
  memory.set("language", language);
}

for (const tabs of all("[role=tablist]")) {
  const choices = all("[role=tab]", tabs);
  // What the reader looks at stays where it is, although examples above it change their height.
  const chooseAt = (tab) => {
    const before = tab.getBoundingClientRect().top;
    choose(tab.dataset.language);
    scrollBy({ top: tab.getBoundingClientRect().top - before, behavior: "instant" });
  };
  tabs.addEventListener("click", (event) => {
    if (event.target.matches("[role=tab]")) chooseAt(event.target);
  });
  tabs.addEventListener("keydown", (event) => {
    const place = choices.indexOf(event.target);
    const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: choices.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const tab = choices[(next + choices.length) % choices.length];
    chooseAt(tab);
    tab.focus();
  });
}
if (memory.get("language")) choose(memory.get("language"));

// Copy buttons.
async function copy(code) {
  if (navigator.clipboard) return navigator.clipboard.writeText(code.textContent);
  // Without HTTPS a browser has no clipboard for scripts, but it copies a selection.
  getSelection().selectAllChildren(code);
  const isCopied = document.execCommand("copy");
  getSelection().removeAllRanges();
  if (!isCopied) throw new Error("not copied");
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (!button) return;
  await copy(one("code", button.closest(".code"))).then(
    () => (button.textContent = "Copied"),
    () => (button.textContent = "Not copied"),
  );
  setTimeout(() => (button.textContent = "Copy"), 1500);
});

// Contents: the current section, and the menu on narrow screens.
const contents = one("#contents");
const menu = one(".menu");
const links = new Map(all("#contents li a").map((link) => [link.hash.slice(1), link]));
const headings = [...links.keys()].map((id) => document.getElementById(id));
let current;

function follow() {
  const top = (heading) => heading.getBoundingClientRect().top;
  const passed = headings.filter((heading) => top(heading) < 140);
  let now = links.get((passed.at(-1) ?? headings[0]).id);
  // The last sections cannot be scrolled to the top.
  const chosen = links.get(location.hash.slice(1));
  const atEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 4;
  if (atEnd && chosen && top(document.getElementById(location.hash.slice(1))) > 0) now = chosen;
  if (now === current) return;
  current?.removeAttribute("aria-current");
  now.setAttribute("aria-current", "location");
  current = now;
  const [box, frame] = [now.getBoundingClientRect(), contents.getBoundingClientRect()];
  if (box.top < frame.top || box.bottom > frame.bottom) contents.scrollTop += box.top - frame.top - frame.height / 2;
}

function toggleMenu(open) {
  menu.setAttribute("aria-expanded", open);
  contents.classList.toggle("open", open);
  one("main").inert = open && getComputedStyle(menu).display !== "none";
}

addEventListener("scroll", () => requestAnimationFrame(follow), { passive: true });
addEventListener("hashchange", follow);
matchMedia("(max-width: 899px)").addEventListener("change", () => toggleMenu(false));
menu.addEventListener("click", () => toggleMenu(!contents.classList.contains("open")));
contents.addEventListener("click", (event) => event.target.closest("a") && toggleMenu(false));
follow();

// Search: every heading, parameter, field, header and response, by its name, then by its text, which ends where the next one begins.
const search = one("#search");
const found = one("#found");
const entries = [];
for (const element of all("main .text > :not(dl), main .text > dl > div")) {
  if (element.matches("h1, h2, h3, dl > div")) {
    const section = one("h1, h2", element.closest("section"));
    const label = one("dt > code", element) ?? one("dt", element) ?? element;
    const title = label.textContent.replace(/\s*#\s*$/, "").replace(/\s+/g, " ");
    const name = section === element ? title : `${section.firstChild.textContent.trim()}: ${title}`;
    entries.push({ id: element.id, title: title.toLowerCase(), name, text: `${name} ${element.id}`.toLowerCase() });
  }
  entries.at(-1).text += ` ${element.textContent.toLowerCase()}`;
}

/** How well an entry matches all words. 0 means not at all. */
function rank({ id, title, name, text }, words) {
  const ways = [
    (word) => text.includes(word),
    (word) => name.toLowerCase().includes(word),
    (word) => title.includes(word),
    (word) => title.startsWith(word),
    (word) => title === word || id.toLowerCase() === word,
  ];
  return ways.findLastIndex((matches) => words.every(matches)) + 1;
}

function find() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = words.length === 0;
  const ranked = entries.map((entry) => [rank(entry, words), entry]).filter(([rank]) => rank > 0);
  const best = ranked.sort(([one], [other]) => other - one);
  one("p", found).textContent = best.length ? `${best.length} ${best.length === 1 ? "result" : "results"}` : "Nothing found.";
  one("ul", found).replaceChildren(...best.map(([, { id, name }]) => make("li", {}, make("a", { href: `#${id}` }, name))));
  found.scrollTop = 0;
}

function closeSearch() {
  found.hidden = true;
  search.value = "";
  toggleMenu(false);
}

search.addEventListener("input", find);
found.addEventListener("click", (event) => event.target.closest("a") && closeSearch());
one(".search").addEventListener("keydown", (event) => {
  if (found.hidden) return;
  const stops = [search, ...all("a", found)];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    stops[Math.min(Math.max(stops.indexOf(document.activeElement) + step, 0), stops.length - 1)].focus();
  } else if (event.key === "Enter" && event.target === search && stops[1]) {
    stops[1].click();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const wasMenu = contents.classList.contains("open") && menu.checkVisibility();
    if (!found.hidden) search.focus();
    closeSearch();
    // The menu hides what had the focus.
    if (wasMenu) menu.focus();
  } else if (event.key === "/" && !event.ctrlKey && !event.altKey && !event.metaKey && !event.target.closest("input, textarea, select")) {
    event.preventDefault();
    toggleMenu(true);
    search.focus();
  }
});
document.addEventListener("click", (event) => {
  if (!event.target.closest(".search")) found.hidden = true;
});
// Nothing takes the focus from a link that is clicked in Safari.
one(".search").addEventListener("focusout", ({ relatedTarget, currentTarget }) => {
  if (relatedTarget && !currentTarget.contains(relatedTarget)) found.hidden = true;
});

// The budget: the rate limit headers of the last response.
const budget = one(".budget");
const gauge = one(".gauge", budget);
let reset = 0;

function showBudget(headers, arrived) {
  const [limit, left, end] = ["Limit", "Remaining", "Reset"].map((name) => Number(headers.get(`X-RateLimit-${name}`)));
  if (!limit) return;
  // By the server's clock, which may differ from that of this computer.
  reset = arrived + (end * 1000 - Date.parse(headers.get("Date")));
  budget.hidden = false;
  gauge.ariaValueMax = limit;
  gauge.ariaValueNow = left;
  const amount = [left, limit].map((number) => number.toLocaleString("en")).join(" of ");
  gauge.ariaValueText = `${amount} requests`;
  gauge.classList.toggle("low", left <= limit / 4);
  gauge.classList.toggle("empty", left === 0);
  gauge.firstElementChild.style.width = `${(100 * left) / limit}%`;
  budget.dataset.text = `${amount} left`;
  showReset();
}

function showReset() {
  const seconds = Math.ceil((reset - performance.now()) / 1000);
  if (seconds <= 0) {
    one("p", budget).textContent = gauge.ariaValueText = "Reset since the last response";
    gauge.classList.remove("low", "empty");
    return;
  }
  const when = seconds > 5999 ? `${Math.round(seconds / 3600)} h` : `${seconds} s`;
  one("p", budget).textContent = `${budget.dataset.text}, resets in ${when}`;
}

setInterval(() => budget.hidden || showReset(), 1000);

// Try it.
function request(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  // A server that hangs never responds, and browsers wait for minutes.
  const signal = AbortSignal.timeout(35000);
  const options = { method: form.dataset.method, headers: new Headers(), cache: "no-store", signal };
  if (key) options.headers.set("Authorization", `Bearer ${key}`);
  for (const field of all("[data-in]", form)) {
    const place = field.dataset.in;
    if (place === "path") path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
    else if (place === "body") {
      options.body = field.value;
      options.headers.set("Content-Type", "application/json");
    } else if (field.value === "") continue;
    else if (place === "query") query.set(field.name, field.value);
    else options.headers.set(field.name, field.value);
  }
  return [`${root}/v1${path}${query.size ? `?${query}` : ""}`, options];
}

/** JSON in which no character changes the direction of the text around it. */
const escaped = (json) =>
  json.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** JSON with line breaks, unless that would change it: a number can be too large for JavaScript. */
function indented(text) {
  try {
    const value = JSON.parse(text);
    return JSON.stringify(value) === text ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}

function countdown(seconds) {
  const line = make("span", { className: "wait", role: "timer" });
  const end = performance.now() + seconds * 1000;
  const tick = () => {
    const left = Math.ceil((end - performance.now()) / 1000);
    line.textContent = left > 0 ? `Retry in ${left} s` : "You can retry now.";
    if (left > 0 && (line.isConnected || left === seconds)) setTimeout(tick, 250);
  };
  tick();
  return line;
}

function headerRow([name, value]) {
  const id = `header-${name}`;
  const label = document.getElementById(id) ? make("a", { href: `#${id}` }, name) : name;
  return make("div", {}, make("dt", {}, label), make("dd", {}, value));
}

function show(form, response, text, took) {
  const { status, statusText, headers } = response;
  const line = [make("span", { className: status < 400 ? "status ok" : "status" }, `${status} ${statusText}`.trim()), make("span", {}, `${took} ms`)];
  if (status >= 400) {
    const code = text.match(/^{"code":"(\w+)"/)?.[1];
    if (document.getElementById(`errors-${code}`)) line.push(make("a", { href: `#errors-${code}` }, code));
  }
  if (headers.has("Retry-After")) line.push(countdown(Number(headers.get("Retry-After"))));
  const body = make("pre", { className: "wrap", tabIndex: 0, role: "group", ariaLabel: "Body of the response" }, make("code", {}, escaped(indented(text))));
  const result = [make("dl", { className: "received" }, ...[...headers].map(headerRow)), make("div", { className: "code" }, body)];
  const next = headers.get("Link")?.match(/<([^>]*)>; rel="next"/)?.[1];
  if (next) {
    const button = make("button", { type: "button", className: "next quiet" }, "Next page");
    button.addEventListener("click", () => {
      const query = new URL(next, root).searchParams;
      for (const field of all("[data-in=query]", form)) field.value = query.get(field.name) ?? "";
      form.requestSubmit();
    });
    result.push(button);
  }
  return [line, result];
}

/** What is shown instead of a response. */
const withoutResponse = (reason) => [[make("span", { className: "wait" }, reason)], []];

async function send(form) {
  const unsendable = all("[data-in=header]", form).find((field) => /[^\0-\xff]/.test(field.value));
  if (unsendable) return withoutResponse(`Not sent: ${unsendable.name} has characters that a header cannot have.`);
  const began = performance.now();
  const sent = key;
  try {
    const response = await fetch(...request(form));
    const text = await response.text();
    const arrived = performance.now();
    if (sent === key) showBudget(response.headers, arrived);
    return show(form, response, text, Math.round(arrived - began));
  } catch (error) {
    return withoutResponse(`No response: ${error.message}`);
  }
}

for (const form of all(".try form")) {
  // A cursor belongs to one list: with another filter it is invalid.
  const cursor = form.elements.cursor;
  form.addEventListener("input", ({ target }) => {
    if (cursor && target !== cursor && target.dataset.in === "query") cursor.value = "";
  });
  const fill = (line, result) => {
    one(".line", form.parentElement).replaceChildren(...line);
    one(".result", form.parentElement).replaceChildren(...result);
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = one("[type=submit]", form);
    button.disabled = true;
    // Removes the previous response with its "Next page" button: a form has one request at a time, and no late response replaces a newer one.
    fill(["Waiting…"], []);
    fill(...(await send(form)));
    button.disabled = false;
    // A disabled button loses keyboard focus.
    if (document.activeElement === document.body) button.focus();
    one(".line", form.parentElement).scrollIntoView({ block: "nearest" });
  });
}
