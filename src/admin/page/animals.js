// The views of animals and orders.

const statuses = ["available", "pending", "sold"];

/** A view that is read in pages: the first one, and from each the next. */
function pages(name, path, show) {
  const [previous, following] = [$(`${name}-previous`), $(`${name}-next`)];
  let cursor = null;
  let next = null;
  const read = async () => {
    const query = new URLSearchParams({ limit: 50, ...path.query() });
    if (cursor) query.set("cursor", cursor);
    const { data, response } = await call("GET", `${path.name}?${query}`);
    next = response.headers.get("X-Next-Cursor");
    $(name).replaceChildren(...data.map(show));
    $(`${name}-range`).textContent = data.length ? `${number(data[0].id)} to ${number(data.at(-1).id)}` : "None";
    previous.disabled = !cursor;
    following.disabled = !next;
  };
  const go = (to) => {
    cursor = to;
    return read();
  };
  const turn = (to, from, other) => go(to).then(settled, report).then(() => keepFocus(from, other));
  previous.addEventListener("click", () => turn(null, previous, following));
  following.addEventListener("click", () => turn(next, following, previous));
  return { read, first: () => go(null) };
}

const animals = pages("animals", { name: "pets", query: () => ($("animals-status").value ? { status: $("animals-status").value } : {}) }, (pet) =>
  element("tr", { id: `animal-${pet.id}` },
    element("td", {}, String(pet.id)),
    element("td", {}, pet.name),
    element("td", {}, String(pet.categoryId)),
    element("td", {}, pet.status),
    element("td", { class: "change nowrap" },
      element("button", { type: "button", class: "quiet", "aria-label": `Set status of animal ${pet.id}`, onclick: () => setStatus(pet) }, "Set status"), " ",
      pet.status === "available"
        ? element("button", { type: "button", class: "quiet", "aria-label": `Place order for animal ${pet.id}`, onclick: () => placeOrder(pet) }, "Place order")
        : undefined)));

const orders = pages("orders", { name: "orders", query: () => ({}) }, (order) =>
  element("tr", { id: `order-${order.id}` },
    element("td", {}, String(order.id)),
    element("td", {}, String(order.petId)),
    element("td", { class: "nowrap" }, time(order.shipDate)),
    element("td", {}, order.state),
    element("td", { class: "change nowrap" }, ...(order.state !== "open" ? [] : [
      element("button", { type: "button", class: "quiet", "aria-label": `Complete order ${order.id}`, onclick: () => endOrder(order, "complete") }, "Complete"), " ",
      element("button", { type: "button", class: "danger", "aria-label": `Cancel order ${order.id}`, onclick: () => endOrder(order, "cancel") }, "Cancel")]))));

$("animals-status").addEventListener("change", () => animals.first().then(settled, report));
$("animals-filter").addEventListener("submit", (event) => event.preventDefault());

const setStatus = (pet) => ask({
  title: `Set the status of ${pet.name}`,
  body: [
    ...field("Status", choice("status", statuses, pet.status)),
    element("label", {}, element("input", { type: "checkbox", name: "force", class: "inline" }), " cancel the open order, if there is one"),
  ],
  submit: "Set status",
  act: async (form) => {
    await call("POST", `pets/${pet.id}/status`, { status: form.get("status"), force: form.has("force") });
    await animals.read();
  },
});

const placeOrder = (pet) => ask({
  title: `Place an order for ${pet.name}`,
  body: [
    element("p", {}, "The animal becomes pending."),
    ...field("Ship date, or date and time (optional, such as 2026-12-24T18:00:00Z)", element("input", { name: "shipDate", autocomplete: "off" })),
  ],
  submit: "Place order",
  act: async (form) => {
    const shipDate = form.get("shipDate") ? `,"shipDate":${JSON.stringify(form.get("shipDate"))}` : "";
    await call("POST", "orders", `{"petId":${pet.id}${shipDate}}`);
    await animals.read();
  },
});

const endOrder = (order, action) => ask({
  title: action === "complete" ? `Complete order ${order.id}?` : `Cancel order ${order.id}?`,
  body: [element("p", {}, action === "complete" ? `Animal ${order.petId} becomes sold. This cannot be undone.` : `Animal ${order.petId} becomes available again.`)],
  submit: action === "complete" ? "Complete order" : "Cancel order",
  danger: action === "cancel",
  act: async () => {
    await call("POST", `orders/${order.id}/${action}`);
    await orders.read();
  },
});
