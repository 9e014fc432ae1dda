// The views of keys: the list, and one key.

const list = { offset: 0, size: 50, sort: "id", order: "asc", total: 0 };

const plans = ["free", "pro", "business", "enterprise"];

/** A bar of what is used of a limit, with the numbers. */
function bar(used, limit) {
  const filled = element("span");
  filled.style.width = `${Math.min(100, (used / limit) * 100)}%`;
  const shown = element("span", { class: used >= limit ? "bar full" : "bar", "aria-hidden": "true" }, filled);
  return element("td", { class: "nowrap" }, `${number(used)} of ${number(limit)}`, shown);
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

async function showKeys() {
  const query = new URLSearchParams({ offset: list.offset, limit: list.size, sort: list.sort, order: list.order });
  if ($("keys-search").value) query.set("q", $("keys-search").value);
  if ($("keys-state").value) query.set("state", $("keys-state").value);
  const { data, response } = await call("GET", `keys?${query}`);
  list.total = Number(response.headers.get("X-Total-Count"));
  $("keys").replaceChildren(...data.map((key) =>
    element("tr", {},
      element("td", {}, String(key.id)),
      element("td", {}, element("a", { href: `#keys/${key.id}` }, key.name)),
      element("td", {}, key.plan),
      bar(key.usedThisMinute, key.perMinute),
      bar(key.usedToday, key.perDay),
      element("td", {}, sparkline(key.days)),
      element("td", { class: "nowrap" }, time(key.lastUsedAt)),
      element("td", { class: "nowrap" }, badge(key.state), key.bannedUntil ? ` until ${time(key.bannedUntil)}` : ""))));
  const last = list.offset + data.length;
  $("keys-range").textContent = list.total ? `${number(list.offset + 1)} to ${number(last)} of ${number(list.total)}` : "No keys";
  $("keys-previous").disabled = list.offset === 0;
  $("keys-next").disabled = last >= list.total;
  for (const button of document.querySelectorAll("[data-sort]")) {
    const sorted = button.dataset.sort === list.sort;
    button.parentElement.setAttribute("aria-sort", sorted ? (list.order === "asc" ? "ascending" : "descending") : "none");
  }
}

/** Shows the list from its beginning, after a change of what is listed. */
function listAgain() {
  list.offset = 0;
  showKeys().then(settled, report);
}

for (const button of document.querySelectorAll("[data-sort]")) {
  button.addEventListener("click", () => {
    const { sort } = button.dataset;
    const descending = list.sort === sort ? list.order === "asc" : sort === "today" || sort === "lastUsed";
    Object.assign(list, { sort, order: descending ? "desc" : "asc" });
    listAgain();
  });
}
let typed;
$("keys-search").addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(listAgain, 200);
});
$("keys-state").addEventListener("change", listAgain);
$("keys-filter").addEventListener("submit", (event) => {
  event.preventDefault();
  listAgain();
});
for (const [id, step] of [["keys-previous", -1], ["keys-next", 1]]) {
  $(id).addEventListener("click", async () => {
    list.offset = Math.max(0, list.offset + step * list.size);
    await showKeys().then(settled, report);
    keepFocus($(id), $("keys-previous"), $("keys-next"));
  });
}

/** The fields of a plan. The limits are those of plan enterprise only. */
function planFields(selected, perMinute, perDay) {
  const plan = choice("plan", plans, selected);
  const minute = element("input", { name: "perMinute", type: "number", min: 1, max: 1e9, value: perMinute });
  const day = element("input", { name: "perDay", type: "number", min: 1, max: 1e9, value: perDay });
  const limits = element("div", {}, ...field("Requests per minute", minute), ...field("Requests per day", day));
  const update = () => {
    limits.hidden = plan.value !== "enterprise";
    minute.required = day.required = !limits.hidden;
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
  title: "Create a key",
  body: [
    ...field("Name", element("input", { name: "name", required: true, maxlength: 100, autocomplete: "off" })),
    ...planFields("free"),
    ...field("Expires after (such as 90d; empty: never)", element("input", { name: "expires", autocomplete: "off" })),
  ],
  submit: "Create",
  act: async (form) => {
    const body = { name: form.get("name"), ...planBody(form) };
    if (form.get("expires")) body.expires = form.get("expires");
    const { data } = await call("POST", "keys", body);
    listAgain();
    return { title: `Key ${data.id} (${data.name}) is created`, body: secret(data.key) };
  },
}));

let shownKey;

async function showKey(id) {
  const { data: key } = await call("GET", `keys/${id}`);
  shownKey = key;
  $("key-title").textContent = `${key.name} (key ${key.id})`;
  const details = [
    ["State", badge(key.state)],
    ["Banned until", key.bannedUntil && time(key.bannedUntil)],
    ["Plan", key.plan],
    ["This minute", `${number(key.usedThisMinute)} of ${number(key.perMinute)}`],
    ["Today", `${number(key.usedToday)} of ${number(key.perDay)}`],
    ["Rejected today", number(key.refusedToday)],
    ["Key", `${key.prefix}…`],
    ["Created", time(key.createdAt)],
    ["Last used", time(key.lastUsedAt)],
    ["Expires", key.expiresAt && time(key.expiresAt)],
    ["Revoked", key.revokedAt && time(key.revokedAt)],
    ["Old secret works until", key.oldSecretUntil && time(key.oldSecretUntil)],
    ["Last unbanned", key.unbannedAt && time(key.unbannedAt)],
  ];
  $("key-details").replaceChildren(...details.filter(([, value]) => value).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  $("key-unban").hidden = key.state !== "banned";
  for (const id of ["key-plan", "key-rotate", "key-revoke"]) $(id).disabled = key.state === "revoked";
  const most = Math.max(1, ...key.usage.map((day) => day.requests + day.refused));
  $("key-days").replaceChildren(key.usage.length ? element("div", { class: "scroll", role: "region", "aria-label": "Requests by day", tabindex: 0 },
    element("table", {}, element("thead", {}, element("tr", {}, ...["Day", "Requests", "Rejected", ""].map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, ...key.usage.toReversed().map((day) => {
        const filled = element("span");
        filled.style.width = `${(day.requests / most) * 100}%`;
        return element("tr", {}, element("td", { class: "nowrap" }, day.day), element("td", {}, number(day.requests)), element("td", {}, number(day.refused)),
          element("td", {}, element("span", { class: "bar", "aria-hidden": "true" }, filled)));
      })))) : element("p", {}, "No requests in the last 90 days."));
  $("key-live").replaceChildren(element("div", {}, element("dt", {}, "none yet"), element("dd", {}, "0")));
}

/** The requests of the shown key by status, since its page was opened. */
function showKeyLive(counts) {
  const entries = Object.entries(counts);
  if (!entries.length) return;
  $("key-live").replaceChildren(...entries.map(([status, count]) => element("div", {}, element("dt", {}, status), element("dd", {}, number(count)))));
}

/** Asks before a change of the shown key, makes it, and shows the key again. */
function changeKey(action, { title, text, submit, danger, fields = [], body = () => undefined }) {
  const { id } = shownKey;
  ask({
    title,
    body: [element("p", {}, text), ...fields],
    submit,
    danger,
    act: async (form) => {
      const { data } = await call("POST", `keys/${id}/${action}`, body(form));
      await showKey(id);
      return data.key ? { title: `Key ${id} has a new secret`, body: secret(data.key) } : undefined;
    },
  });
}

$("key-plan").addEventListener("click", () => changeKey("plan", {
  title: `Change the plan of ${shownKey.name}`,
  text: "The new limits apply within a second.",
  submit: "Change plan",
  fields: planFields(shownKey.plan, shownKey.perMinute, shownKey.perDay),
  body: planBody,
}));
$("key-rotate").addEventListener("click", () => changeKey("rotate", {
  title: `Rotate ${shownKey.name}?`,
  text: shownKey.oldSecretUntil
    ? "It was rotated recently: the secret issued then is replaced, and the one before stops working at once."
    : "It gets a new secret. The old one works until the grace period ends.",
  submit: "Rotate",
  danger: Boolean(shownKey.oldSecretUntil),
  fields: field("Grace period", element("input", { name: "grace", value: "24h", required: true, autocomplete: "off" })),
  body: (form) => ({ grace: form.get("grace"), confirm: Boolean(shownKey.oldSecretUntil) }),
}));
$("key-unban").addEventListener("click", () => changeKey("unban", {
  title: `Unban ${shownKey.name}?`,
  text: "It can be used again at once, and its next ban is a first one.",
  submit: "Unban",
}));
$("key-revoke").addEventListener("click", () => changeKey("revoke", {
  title: `Revoke ${shownKey.name}?`,
  text: `Key ${shownKey.id} stops working within a second, for good. This cannot be undone.`,
  submit: "Revoke",
  danger: true,
}));
