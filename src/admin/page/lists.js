// Lists that are read in pages: keys, animals and orders.

const pageSize = 50;

/** The path of a page of a list, with those of the parameters that have a value. */
function pathOf(name, parameters) {
  const given = Object.entries({ limit: pageSize, ...parameters }).filter(([, value]) => value !== "");
  return `${name}?${new URLSearchParams(given)}`;
}

/**
 * A view of a list. `path` returns what to read at a position, and `around` what is before and after what was read: the positions of the
 * `previous` and the `next` page, and the `range` as text. `actions` are those of the buttons in a row.
 */
function listView(name, { title, first = {}, path, row, around, actions = {} }) {
  const [rows, previous, next, range] = ["", "-previous", "-next", "-range"].map((part) => $(name + part));
  const unread = { position: first, records: [], range: "" };
  let page = unread;

  const view = {
    title,
    get position() {
      return page.position;
    },
    wait(waiting) {
      $(`view-${name}`).setAttribute("aria-busy", waiting);
      previous.disabled = waiting || !page.previous;
      next.disabled = waiting || !page.next;
      fill(range, waiting ? "Loading…" : page.range);
    },
    async read({ signal, to = page.position }) {
      const { data, response } = await call("GET", path(to), { signal }).catch((failure) => {
        // An ID that is looked up may be unknown.
        if (failure.isUnknown) return { data: [] };
        throw failure;
      });
      const records = [data].flat();
      const found = { position: to, records, ...around(to, records, response?.headers) };
      // A page after the first becomes empty when its rows are changed or removed.
      if (!records.length && found.previous) return view.read({ signal, to: found.previous });
      page = found;
      const focused = document.activeElement;
      fill(rows, ...records.map(row));
      // A row that moved has lost it.
      if (rows.contains(focused)) focused.focus({ preventScroll: true });
    },
    forget() {
      page = unread;
      rows.replaceChildren();
      $(`${name}-filter`).reset();
      view.wait(false);
    },
    /** Shows another page, unless another view is shown by now. */
    go: (to) => (shown.name === name ? load({ to }) : undefined),
    /** Shows the first page, after a change of the filter. The positions of the old filter are invalid now, even if this read fails. */
    restart(position = first) {
      page = { position, records: page.records, range: page.range };
      previous.disabled = next.disabled = true;
      view.go();
    },
  };

  for (const [button, other, to] of [[previous, next, () => page.previous], [next, previous, () => page.next]]) {
    button.addEventListener("click", async () => {
      await view.go(to());
      keepFocus(button, other);
    });
  }
  rows.addEventListener("click", ({ target }) => {
    const action = actions[target.dataset.action];
    const index = [...rows.children].indexOf(target.closest("tr"));
    if (action) action(page.records[index]);
  });
  $(`${name}-filter`).addEventListener("submit", (event) => event.preventDefault());
  return view;
}

/** Calls a function when the user has stopped typing. */
function onTyped(input, act) {
  let timer;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(act, 200);
  });
}
