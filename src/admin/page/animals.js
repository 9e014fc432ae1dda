// The views of animals and orders.

const statuses = ["available", "pending", "sold"];

/** What is before and after a page that was read from a cursor. */
const aroundCursor = (none) => (position, records, headers) => {
  const cursor = headers?.get("X-Next-Cursor");
  const range = () => `IDs ${number(records[0].id)} to ${number(records.at(-1).id)}`;
  return { previous: position.cursor && {}, next: cursor && { cursor }, range: records.length ? range() : none() };
};

const button = (action, label, text, kind = "quiet") => element("button", { type: "button", class: kind, "data-action": action, "aria-label": label }, text);

const animalsView = listView("animals", {
  title: "Animals",
  path: (position) => {
    const id = $("animals-id").value.trim();
    return id ? `pets/${encodeURIComponent(id)}` : pathOf("pets", { ...position, status: $("animals-status").value });
  },
  row: (pet) =>
    element("tr", { id: `animal-${pet.id}` },
      element("td", {}, String(pet.id)),
      element("td", { class: "name" }, nameOf(pet)),
      element("td", {}, pet.status),
      element("td", { class: "change" },
        button("status", `Set status of animal ${pet.id}`, "Set status"), " ",
        pet.status === "available" ? button("order", `Place order for animal ${pet.id}`, "Place order") : undefined),
      element("td", {}, String(pet.categoryId))),
  around: aroundCursor(() => {
    if ($("animals-id").value.trim()) return "There is no animal with this ID. Clear the field to see all.";
    return $("animals-status").value ? "No animals have this status." : "No animals yet. Create them with POST /v1/pets or animal-store pets import.";
  }),
  actions: { status: setStatus, order: placeOrder },
});

const ordersView = listView("orders", {
  title: "Orders",
  path: (position) => pathOf("orders", { ...position, state: $("orders-state").value }),
  row: (order) =>
    element("tr", { id: `order-${order.id}` },
      element("td", {}, String(order.id)),
      element("td", {}, String(order.petId)),
      element("td", {}, order.state),
      element("td", { class: "change" }, ...(order.state !== "open" ? [] : [
        button("complete", `Complete order ${order.id}`, "Complete"), " ",
        button("cancel", `Cancel order ${order.id}`, "Cancel", "danger")])),
      element("td", {}, dateUtc(order.shipDate))),
  around: aroundCursor(() => {
    if ($("orders-state").value) return "No orders are in this state.";
    return `No orders yet. Place one ${isReadOnly() ? "with animal-store orders place" : "in Animals"}.`;
  }),
  actions: { complete: (order) => endOrder(order, "complete"), cancel: (order) => endOrder(order, "cancel") },
});

// An animal is looked up by its ID, or listed by its status.
onTyped($("animals-id"), () => {
  $("animals-status").value = "";
  animalsView.restart();
});
$("animals-status").addEventListener("change", () => {
  $("animals-id").value = "";
  animalsView.restart();
});
$("orders-state").addEventListener("change", () => ordersView.restart());

function setStatus(pet) {
  ask({
    title: ["Set the status of ", nameOf(pet)],
    body: [
      ...field("Status", choice("status", statuses, pet.status)),
      element("label", {}, element("input", { type: "checkbox", name: "force", class: "inline" }), " Also cancel the open order, if there is one (not with the status pending)"),
    ],
    submit: "Set status",
    act: async (form) => {
      await call("POST", `pets/${pet.id}/status`, { body: { status: form.get("status"), force: form.has("force") } });
    },
  });
}

function placeOrder(pet) {
  ask({
    title: ["Place an order for ", nameOf(pet)],
    body: [
      element("p", {}, "The animal becomes pending."),
      ...field("Ship date, or date and time (optional, such as 2030-12-24T18:00:00Z)", element("input", { name: "shipDate", autocomplete: "off" })),
    ],
    submit: "Place order",
    act: async (form) => {
      const shipDate = form.get("shipDate") ? `,"shipDate":${JSON.stringify(form.get("shipDate"))}` : "";
      await call("POST", "orders", { body: `{"petId":${pet.id}${shipDate}}` });
    },
  });
}

function endOrder({ id, petId }, action) {
  const isCancelled = action === "cancel";
  ask({
    title: [isCancelled ? `Cancel order ${id}?` : `Complete order ${id}?`],
    body: [element("p", {}, isCancelled ? `Animal ${petId} becomes available again.` : `Animal ${petId} becomes sold. This cannot be undone.`)],
    submit: isCancelled ? "Cancel order" : "Complete order",
    cancel: isCancelled ? "Keep order" : "Back",
    danger: isCancelled,
    act: async () => {
      await call("POST", `orders/${id}/${action}`);
    },
  });
}
