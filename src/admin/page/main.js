// Which view is shown and when it is read, and logging in and out.

const views = { now: nowView, keys: keysView, key: keyView, animals: animalsView, orders: ordersView };

/** How often a view is read again, in milliseconds. */
const INTERVAL = 5000;

/** The share of the time that reading a view may take. A slow view is read once a minute, even if that takes more. */
const SHARE = 0.01;

/** The view that is shown, and the ID in its address. */
let shown = { name: "login" };

/** Whether the server lets this page read. */
let mayRead = false;

/** How many times the login form was shown: a response to an earlier request must not show the dashboard again. */
let loginsShown = 0;

/** The timer after which the page reconnects, while the server cannot be reached. */
let retry = null;

/** The read that is under way. A newer one aborts it: a late response never replaces a newer one. */
let reading = null;

/** Whether the last read failed. */
let stale = false;

/** The version of the server when this page first read its state. */
let version = null;

/** Whether the server has another version by now. */
let isOutdated = false;

/** Reads the view, or another page of its list. A `quiet` read shows what has changed, and nothing while it waits. */
async function load({ to, quiet = false } = {}) {
  if (!mayRead) return;
  const [{ name, id }, view] = [shown, views[shown.name]];
  reading?.abort();
  const controller = new AbortController();
  reading = controller;
  // An indicator that is shown for only a moment would flicker.
  const slow = setTimeout(() => !quiet && reading === controller && view.wait(true), 150);
  try {
    await view.read({ signal: controller.signal, id, to });
    if (stale && !live.lost) showLost(false);
    if (!quiet || stale) hideProblem();
    stale = false;
  } catch (failure) {
    if (reading !== controller || failure.status === 401) return;
    if (quiet && !failure.status) showLost(true);
    else report(failure);
    stale = true;
  } finally {
    clearTimeout(slow);
    if (reading === controller) {
      reading = null;
      view.wait(false);
      if (!retry) openStream(name === "key" && shownKey ? id : null);
    }
  }
}

/** Reads the view again, as often as its share of time allows: a list of very many keys takes longer. */
async function refresh() {
  const began = performance.now();
  if (!reading && !document.hidden && !$("dialog").open && (shown.name !== "now" || live.moved)) await load({ quiet: true });
  const took = performance.now() - began;
  setTimeout(refresh, Math.min(Math.max(INTERVAL, took / SHARE), 12 * INTERVAL));
}

function setTitle(text) {
  document.title = `${text} – Animal Store`;
}

function show(view, title) {
  setTitle(title);
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== `view-${view}`;
  const tab = view === "key" ? "keys" : view;
  for (const link of document.querySelectorAll(".top nav a")) {
    if (link.hash === `#${tab}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Shows the view that the address names. */
async function route() {
  const [part, id] = location.hash.slice(1).split("/");
  const isKey = part === "keys" && /^[0-9]+$/.test(id ?? "");
  const name = isKey ? "key" : Object.hasOwn(views, part) && part !== "key" ? part : "now";
  dismiss();
  hideProblem();
  // A stream counts the requests of its key from when it was opened: each visit to a key needs a new one.
  if (live.key !== null) closeStream();
  shown = { name, id };
  show(name, views[name].title);
  if (isKey) keyView.clear(id);
  await load();
}

/** Asks for the token. Nothing that the session has shown is left, except for a secret, which could never be shown again. */
function showLogin(message = "") {
  clearTimeout(retry);
  retry = null;
  // The server has responded.
  live.lost = false;
  showLost(false);
  mayRead = false;
  loginsShown += 1;
  reading?.abort();
  reading = null;
  closeStream();
  dismiss();
  for (const view of Object.values(views)) view.forget();
  shown = { name: "login" };
  show("login", "Log in");
  for (const part of document.querySelectorAll(".top nav, .server, #log-out, #read-only")) part.hidden = true;
  document.querySelector(".node").textContent = "";
  hideProblem();
  $("login").querySelector(".problem").textContent = message;
  if (!$("dialog").open) $("token").focus();
}

/** Reconnects in a moment. However often it is called, there is one timer. */
function beginLater() {
  clearTimeout(retry);
  retry = setTimeout(begin, 2000);
}

/** Shows the dashboard, or the login form with this message if no session is open. */
async function begin(message = "") {
  clearTimeout(retry);
  retry = null;
  let overview;
  const before = loginsShown;
  try {
    const { data: session } = await call("GET", "session");
    if (before !== loginsShown) return;
    if (!session.open) {
      showLogin(mayRead ? whyLogIn() : message);
      return;
    }
    ({ data: overview } = await call("GET", "overview"));
  } catch (failure) {
    if (failure.status === 401) return;
    showLost(true);
    beginLater();
    return;
  }
  if (before !== loginsShown) return;
  version ??= overview.version;
  // An upgraded server has another page, too. A dialog may show a secret, which would be lost: then the page is loaded again later.
  isOutdated = version !== overview.version;
  if (isOutdated && !$("dialog").open) {
    location.reload();
    return;
  }
  showLost(live.lost);
  document.querySelector(".node").textContent = `${overview.node}, ${overview.database}, version ${overview.version}`;
  for (const part of document.querySelectorAll(".top nav, .server")) part.hidden = false;
  document.body.classList.toggle("read-only", !overview.mayChange);
  $("read-only").hidden = overview.mayChange;
  $("log-out").hidden = !overview.mayChange;
  showState(overview);
  // After a lost connection the view is there already.
  const isShown = mayRead;
  mayRead = true;
  await (isShown ? load({ quiet: true }) : route());
}

$("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const problem = event.target.querySelector(".problem");
  problem.textContent = "";
  try {
    await call("POST", "session", { body: { token: $("token").value } });
    $("token").value = "";
    await begin("The browser did not keep the session cookie: allow cookies for this address, or use HTTPS.");
    if (mayRead) focusView();
  } catch (failure) {
    problem.textContent = failure.message;
  }
});

$("log-out").addEventListener("click", async () => {
  try {
    await call("DELETE", "session");
  } catch (failure) {
    // Without a session there is nothing to end.
    if (failure.status !== 401) {
      report({ message: `Logging out failed, so you may still be logged in. ${failure.message}` });
      return;
    }
  }
  showLogin();
});

/** Moves the focus to the content, and to its beginning: what had the focus may be gone. */
function focusView() {
  $("main").focus({ preventScroll: true });
  scrollTo(0, 0);
}

// The link that skips to the content is not a view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
// The link to the view that is shown reads it again. The browser would scroll to an element that has its name.
document.querySelector(".top nav").addEventListener("click", (event) => {
  if (event.target.hash !== location.hash || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  load();
  focusView();
});
addEventListener("hashchange", () => {
  if (!mayRead) return;
  route();
  focusView();
});
begin();
setTimeout(refresh, INTERVAL);
