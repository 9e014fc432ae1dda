// The dialog: a question before a change, and the secret of a key.

/** The question that is open: whether it must stay open for its request (`busy`), and whether it shows what can never be shown again. */
let question = {};

/** Whether closing the dialog would lose something. */
function mustStay() {
  return question.busy || question.showsSecret;
}

function dismiss() {
  if (!mustStay()) $("dialog").close();
}

function setBusy(busy) {
  question.busy = busy;
  $("dialog").setAttribute("aria-busy", busy);
  $("dialog-wait").textContent = busy ? "Please wait…" : "";
  $("dialog").querySelector(".problem").textContent = "";
  for (const button of $("dialog").querySelectorAll(".actions button")) button.disabled = busy;
}

/**
 * Asks for confirmation, and calls `act` when it is given. The dialog stays open until its request is done and the view is read again; if
 * `act` returns the secret of a key, until the user closes it. Then the focus returns to what opened it; or, if that is gone, to what is
 * next to it.
 */
function ask({ title, body, submit, cancel = "Cancel", danger, act }) {
  const dialog = $("dialog");
  const from = document.activeElement;
  const [row, region] = [from.closest("tr")?.id, from.closest(".scroll")];
  const [form, problem] = [dialog.querySelector("form"), dialog.querySelector(".problem")];
  const button = $("dialog-submit");
  const asked = {};
  question = asked;
  $("dialog-title").replaceChildren(...title);
  $("dialog-body").replaceChildren(...body);
  button.textContent = submit;
  button.className = danger ? "danger" : "";
  button.hidden = false;
  $("dialog-cancel").textContent = cancel;
  setBusy(false);
  form.onsubmit = async (event) => {
    event.preventDefault();
    if (question.busy) return;
    const focused = document.activeElement;
    const noResponse = "The server does not respond. Before you try again, see whether the change was made.";
    setBusy(true);
    // A server that hangs must not lock the page. The request goes on: only its response has the secret of a new key.
    const late = setTimeout(() => {
      setBusy(false);
      button.disabled = true;
      problem.textContent = noResponse;
      keepFocus(focused, $("dialog-cancel"));
    }, RESPONSE_TIMEOUT);
    try {
      const issued = await act(new FormData(form)).finally(() => clearTimeout(late));
      if (question !== asked) return;
      setBusy(true);
      // A secret must be seen even if nothing else can be read.
      const read = load({ quiet: true });
      if (issued) showSecret(issued);
      else await read;
      setBusy(false);
      if (issued) dialog.querySelector("#dialog-body button").focus();
      else dialog.close();
    } catch (failure) {
      if (question !== asked) return;
      setBusy(false);
      if (failure.status === 401) {
        dialog.close();
        return;
      }
      problem.textContent = failure.status ? failure.message : noResponse;
      keepFocus(focused);
      // A rule forbids the change, perhaps because of one made since the view was read.
      if (failure.status === 409) load({ quiet: true });
    }
  };
  dialog.onclose = () => {
    // The event comes later: the dialog may have been opened again.
    if (dialog.open) return;
    // Esc is not the only key or gesture that closes a dialog.
    if (mustStay()) {
      dialog.showModal();
      return;
    }
    question = {};
    if (isOutdated) location.reload();
    // What was shown once must not stay in the document.
    for (const part of ["dialog-title", "dialog-body"]) $(part).replaceChildren();
    const near = (row ? $(row) : from.parentElement)?.querySelectorAll("button") ?? [];
    keepFocus(from, ...near, region, $("token"), $("main"));
  };
  dialog.showModal();
}

addEventListener("keydown", (event) => {
  if (mustStay() && event.key === "Escape") event.preventDefault();
});
addEventListener("beforeunload", (event) => {
  if (mustStay()) event.preventDefault();
});
$("dialog-cancel").addEventListener("click", () => {
  question.showsSecret = false;
  $("dialog").close();
});

/** Shows the secret of a key in the dialog, once, with a button that copies it. */
function showSecret({ title, secret }) {
  const copy = element("button", {
    type: "button",
    class: "quiet",
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(secret);
        copy.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(shown);
        copy.textContent = "Press Ctrl+C to copy";
      }
    },
  }, "Copy");
  const shown = element("code", { class: "secret", id: "secret" }, secret);
  question.showsSecret = true;
  $("dialog-title").replaceChildren(...title);
  $("dialog-body").replaceChildren(element("p", {}, "This is the only time that the secret is shown."), shown, element("p", {}, copy));
  $("dialog-submit").hidden = true;
  $("dialog-cancel").textContent = "Close";
}
