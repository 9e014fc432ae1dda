// The views of keys: the list, and one key.

const plans = ["free", "pro", "business", "enterprise"];

/** A bar of what is used of a limit, with the numbers. */
function bar(used, limit) {
  const filled = element("span");
  filled.style.width = `${Math.min(100, (used / limit) * 100)}%`;
  const shown = element("span", { class: used >= limit ? "bar full" : "bar", "aria-hidden": "true" }, filled);
  return element("td", {}, `${number(used)} of ${number(limit)}`, shown);
}

function sparkline(days) {
  const most = Math.max(1, ...days);
  const points = days.map((count, index) => `${(index / (days.length - 1)) * 94 + 1},${22 - (count / most) * 20}`).join(" ");
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  svg.setAttribute("viewBox", "0 0 96 24");
  svg.setAttribute("class", "spark");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${number(days.reduce((sum, count) => sum + count, 0))} requests in 30 days`);
  line.setAttribute("points", points);
  svg.append(line);
  return svg;
}

const keysView = listView("keys", {
  title: "Keys",
  first: { offset: 0, sort: "id", order: "asc" },
  path: (position) => pathOf("keys", { ...position, q: $("keys-search").value, state: $("keys-state").value }),
  row: (key) =>
    element("tr", { id: `key-${key.id}` },
      element("td", {}, String(key.id)),
      element("td", { class: "name" }, element("a", { href: `#keys/${key.id}` }, nameOf(key))),
      element("td", {}, badge(key.state), key.state === "banned" ? element("small", {}, `until ${time(key.bannedUntil)}`) : ""),
      element("td", {}, key.plan),
      bar(key.usedThisMinute, key.perMinute),
      bar(key.usedToday, key.perDay),
      element("td", {}, time(key.lastUsedAt)),
      element("td", {}, sparkline(key.days))),
  around: (position, { length }, headers) => {
    const { offset, sort, order } = position;
    const [last, total] = [offset + length, Number(headers.get("X-Total-Count"))];
    for (const button of document.querySelectorAll("[data-sort]")) {
      const sorted = button.dataset.sort === sort;
      button.parentElement.setAttribute("aria-sort", sorted ? (order === "asc" ? "ascending" : "descending") : "none");
    }
    const isFiltered = $("keys-search").value || $("keys-state").value;
    const one = isReadOnly() ? "one with animal-store keys create" : "the first one";
    const none = isFiltered ? "No keys match. Change the search or the state." : `No keys yet. Create ${one}.`;
    return {
      previous: offset > 0 && { ...position, offset: Math.max(0, offset - pageSize) },
      next: last < total && { ...position, offset: last },
      range: length ? `${number(offset + 1)} to ${number(last)} of ${number(total)}` : none,
    };
  },
});

for (const button of document.querySelectorAll("[data-sort]")) {
  button.addEventListener("click", () => {
    const { sort } = button.dataset;
    const { position } = keysView;
    const descending = position.sort === sort ? position.order === "asc" : sort === "today" || sort === "lastUsed";
    keysView.go({ offset: 0, sort, order: descending ? "desc" : "asc" });
  });
}
// Another filter, in the same order.
const filterKeys = () => keysView.restart({ ...keysView.position, offset: 0 });
onTyped($("keys-search"), filterKeys);
$("keys-state").addEventListener("change", filterKeys);

/** The fields of a plan. Only the enterprise plan has limits to enter. */
function planFields(selected, perMinute, perDay) {
  const plan = choice("plan", plans, selected);
  const minute = element("input", { name: "perMinute", type: "number", required: true, min: 1, max: 1e9, value: perMinute });
  const day = element("input", { name: "perDay", type: "number", required: true, min: 1, max: 1e9, value: perDay });
  const limits = element("div", {}, ...field("Requests per minute", minute), ...field("Requests per day", day));
  const update = () => {
    limits.hidden = plan.value !== "enterprise";
    // What is not sent is not validated.
    minute.disabled = day.disabled = limits.hidden;
  };
  plan.addEventListener("change", update);
  update();
  return [...field("Plan", plan), limits];
}

function planBody(form) {
  const plan = form.get("plan");
  if (plan !== "enterprise") return { plan };
  return { plan, perMinute: Number(form.get("perMinute")), perDay: Number(form.get("perDay")) };
}

$("create-key").addEventListener("click", () => ask({
  title: ["Create a key"],
  body: [
    ...field("Name", element("input", { name: "name", required: true, autocomplete: "off" })),
    ...planFields("free"),
    ...field("Expires after (such as 90d; empty: never)", element("input", { name: "expires", autocomplete: "off" })),
  ],
  submit: "Create",
  act: async (form) => {
    const body = { name: form.get("name"), ...planBody(form) };
    if (form.get("expires")) body.expires = form.get("expires");
    const { data } = await call("POST", "keys", { body });
    return { title: [`Key ${data.id} (`, nameOf(data), ") created"], secret: data.key };
  },
}));

/** The key that is shown, once it is read, and its requests by status since its page was opened. */
let shownKey = null;
let keyCounts = {};

const keyView = {
  title: "Key",
  /** Clears the view, which may still show another key. */
  clear(id) {
    shownKey = null;
    keyCounts = {};
    $("key-title").textContent = `Key ${id}`;
    $("key-note").textContent = "";
    for (const part of ["key-actions", "key-content"]) $(part).hidden = true;
    for (const part of ["key-details", "key-days"]) $(part).replaceChildren();
    $("key-live").replaceChildren(element("div", {}, element("dt", {}, "none yet"), element("dd", {}, "0")));
  },
  wait(waiting) {
    $("view-key").setAttribute("aria-busy", waiting);
    if (waiting) $("key-note").textContent = "Loading…";
    else if ($("key-note").textContent === "Loading…") $("key-note").textContent = "";
  },
  async read({ signal, id }) {
    try {
      showKey((await call("GET", `keys/${id}`, { signal })).data);
    } catch (failure) {
      if (!failure.isUnknown) throw failure;
      fill($("key-note"), "There is no key with this ID. ", element("a", { href: "#keys" }, "Show all keys"));
    }
  },
  forget: () => keyView.clear(""),
};

function showKey(key) {
  shownKey = key;
  $("key-note").textContent = "";
  fill($("key-title"), nameOf(key), ` (key ${key.id})`);
  setTitle(`\u2068${key.name}\u2069`);
  const ban = key.lastBanAt && `from ${time(key.lastBanAt)} until ${time(key.lastBanUntil)}`;
  const details = [
    ["State", badge(key.state)],
    ["Banned until", key.state === "banned" && time(key.bannedUntil)],
    ["Plan", key.plan],
    ["This minute", `${number(key.usedThisMinute)} of ${number(key.perMinute)}`],
    ["Today", `${number(key.usedToday)} of ${number(key.perDay)}`],
    ["Rejected today", number(key.refusedToday)],
    ["Prefix", `${key.prefix}…`],
    ["Created", time(key.createdAt)],
    ["Last used", time(key.lastUsedAt)],
    ["Expires", key.expiresAt && time(key.expiresAt)],
    ["Revoked", key.revokedAt && time(key.revokedAt)],
    ["Old secret works until", key.oldSecretUntil && time(key.oldSecretUntil)],
    ["Last ban", ban ?? (key.unbannedAt ? "none since it was unbanned" : "none")],
    ["Last unbanned", key.unbannedAt && time(key.unbannedAt)],
  ];
  fill($("key-details"), ...details.filter(([, value]) => value).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  $("key-unban").hidden = key.state !== "banned";
  for (const id of ["key-plan", "key-rotate", "key-revoke"]) $(id).disabled = key.state === "revoked";
  fill($("key-days"), key.usage.length ? usageTable(key.usage) : element("p", {}, "No requests in the last 90 days."));
  for (const part of ["key-actions", "key-content"]) $(part).hidden = false;
}

function usageTable(usage) {
  const most = Math.max(1, ...usage.map((day) => day.requests + day.refused));
  const rows = usage.toReversed().map((day) => {
    const filled = element("span");
    filled.style.width = `${(day.requests / most) * 100}%`;
    return element("tr", {}, element("td", {}, day.day), element("td", {}, number(day.requests)), element("td", {}, number(day.refused)),
      element("td", {}, element("span", { class: "bar", "aria-hidden": "true" }, filled)));
  });
  const heads = ["Day (UTC)", "Requests", "Rejected", ""].map((text) => element("th", { scope: "col" }, text));
  return element("div", { class: "scroll", role: "region", "aria-label": "Requests by day", tabindex: 0 },
    element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows)));
}

/** Returns a handler that shows the counts of a new stream, added to those of earlier streams: a lost connection ends a stream. */
function countKeyLive() {
  const before = { ...keyCounts };
  return (counts) => {
    const entries = Object.entries(counts);
    // They may still be those of the key that was shown before.
    if (!entries.length || String(shownKey?.id) !== live.key) return;
    for (const [status, count] of entries) keyCounts[status] = (before[status] ?? 0) + count;
    fill($("key-live"), ...Object.entries(keyCounts).map(([status, count]) =>
      element("div", {}, element("dt", {}, status), element("dd", {}, number(count)))));
  };
}

/** Asks before a change of the shown key, and makes it. */
function changeKey(action, { title, text, submit, danger, fields = [], body = () => undefined }) {
  const { id } = shownKey;
  ask({
    title,
    body: [element("p", {}, text), ...fields],
    submit,
    danger,
    act: async (form) => {
      const { data } = await call("POST", `keys/${id}/${action}`, { body: body(form) }).catch((failure) => {
        // It confirms the secret that the key had when the dialog was opened.
        if (action === "rotate" && failure.status === 409) failure.message += " To rotate it again, close this dialog first.";
        throw failure;
      });
      return data.key && { title: [`Key ${id} has a new secret`], secret: data.key };
    },
  });
}

$("key-plan").addEventListener("click", () => changeKey("plan", {
  title: ["Change the plan of ", nameOf(shownKey)],
  text: "The new limits apply within a second, on several nodes within five.",
  submit: "Change plan",
  fields: planFields(shownKey.plan, shownKey.perMinute, shownKey.perDay),
  body: planBody,
}));
$("key-rotate").addEventListener("click", () => {
  const { prefix } = shownKey;
  const again = Boolean(shownKey.oldSecretUntil);
  changeKey("rotate", {
    title: ["Rotate ", nameOf(shownKey), "?"],
    text: again
      ? "It was rotated recently: the secret issued then is replaced, and the one before stops working at once."
      : "It gets a new secret. The old one works until the grace period ends.",
    submit: "Rotate",
    danger: again,
    fields: field("Grace period", element("input", { name: "grace", value: "24h", required: true, autocomplete: "off" })),
    // For the secret that was shown: another operator may have rotated the key since.
    body: (form) => ({ grace: form.get("grace"), confirm: prefix }),
  });
});
$("key-unban").addEventListener("click", () => changeKey("unban", {
  title: ["Unban ", nameOf(shownKey), "?"],
  text: "It can be used again within a second, on several nodes within five, and the duration of its next ban is reset.",
  submit: "Unban",
}));
$("key-revoke").addEventListener("click", () => changeKey("revoke", {
  title: ["Revoke ", nameOf(shownKey), "?"],
  text: `Key ${shownKey.id} stops working within a second, on several nodes within five. This cannot be undone.`,
  submit: "Revoke",
  danger: true,
}));
