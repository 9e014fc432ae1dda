// Logging in and out, and which view is shown.

const views = {
  now: () => showNow(),
  keys: () => showKeys(),
  key: (id) => showKey(id),
  animals: () => animals.first(),
  orders: () => orders.first(),
};

function show(view) {
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== `view-${view}`;
  const tab = view === "key" ? "keys" : view;
  for (const link of document.querySelectorAll(".top nav a")) {
    if (link.hash === `#${tab}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Shows the view that the address names. */
async function route() {
  const { hash } = location;
  const [name, id] = hash.slice(1).split("/");
  const view = name === "keys" && /^[0-9]+$/.test(id ?? "") ? "key" : name in views && name !== "key" ? name : "now";
  show(view);
  let key = null;
  try {
    await views[view](id);
    if (view === "key") key = id;
    settled();
  } catch (failure) {
    if (failure.status === 401) return;
    report(failure);
  }
  // Another view may have been chosen meanwhile.
  if (location.hash === hash) openStream(key);
}

function showLogin() {
  closeStream();
  $("dialog").close();
  show("login");
  for (const part of document.querySelectorAll(".top nav, .server, #log-out")) part.hidden = true;
  settled();
  $("token").focus();
}

async function begin() {
  let overview;
  try {
    const { data: session } = await call("GET", "session");
    if (!session.open) {
      showLogin();
      return;
    }
    ({ data: overview } = await call("GET", "overview"));
  } catch (failure) {
    report(failure);
    setTimeout(begin, 2000);
    return;
  }
  settled();
  document.querySelector(".node").textContent = `${overview.node}, ${overview.database}, version ${overview.version}`;
  for (const part of document.querySelectorAll(".top nav, .server")) part.hidden = false;
  document.body.classList.toggle("read-only", !overview.mayChange);
  $("read-only").hidden = overview.mayChange;
  $("log-out").hidden = !overview.mayChange;
  showState(overview);
  await route();
}

$("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const problem = event.target.querySelector(".problem");
  problem.textContent = "";
  try {
    await call("POST", "session", { token: $("token").value });
    $("token").value = "";
    await begin();
    $("main").focus();
  } catch (failure) {
    problem.textContent = failure.message;
  }
});

$("log-out").addEventListener("click", async () => {
  await call("DELETE", "session").catch(() => {});
  showLogin();
});

// The link that skips to the content is no view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
addEventListener("hashchange", () => {
  route();
  // A view is shown at once, and what had the focus may be gone.
  $("main").focus();
});
begin();
