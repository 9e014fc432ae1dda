// The view "Now": plots, tiles, health and events, from the stream of live data.

const live = { names: [], samples: [], plots: [], source: null, key: null, moved: false, lost: false, deadline: 0 };

/** How long the stream may be silent, in milliseconds. A message comes each second. */
const MAX_SILENCE = 5000;

const PLOT_HEIGHT = 170;

function valueIn(sample, name, factor = 1) {
  const value = sample[live.names.indexOf(name)] ?? null;
  return value === null ? null : value * factor;
}

const plots = [
  {
    title: "Requests per second",
    lines: [["succeeded", "--good"], ["other 4xx", "--info", "clientErrors"], ["unauthorized", "--caution"], ["limited", "--violet"], ["failed", "--bad"]],
  },
  { title: "Latency", unit: "ms", digits: 2, lines: [["p50", "--good"], ["p99", "--caution"], ["p99.9", "--bad", "p999"]] },
  { title: "Writes per second", lines: [["commits", "--info"], ["animals", "--good", "rows"]] },
  { title: "Memory and write-ahead log", unit: "MB", digits: 1, lines: [["resident", "--info", "memory", 1e-6], ["write-ahead log", "--caution", "wal", 1e-6]] },
];

const clock = (at, seconds) =>
  new Date(at * 1e3).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined });

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The numbers of a plot: the times, and for each line its values. */
const values = ({ lines }) => [
  live.samples.map((sample) => valueIn(sample, "time")),
  ...lines.map(([label, , name = label, factor]) => live.samples.map((sample) => valueIn(sample, name, factor))),
];

/** The samples of a line that have no neighbours to be connected with: each is a point. */
function isolated({ data }, line) {
  const at = (index) => data[line][index] ?? null;
  return data[line].flatMap((value, index) => (value !== null && at(index - 1) === null && at(index + 1) === null ? [index] : []));
}

/** The labels of the values at the ticks of an axis, with the digits that tell them apart. */
function tickLabels(_, ticks, __, ___, step) {
  const digits = Math.max(0, 1 - Math.floor(Math.log10(step)));
  return ticks.map((tick) => number(tick, digits));
}

function drawPlots() {
  for (const { plot } of live.plots) plot.destroy();
  $("plots").replaceChildren();
  const boxes = plots.map((shown) => {
    const latest = shown.lines.map(() => element("b"));
    const legend = shown.lines.map(([label, name], index) => {
      const mark = element("i");
      mark.style.borderTopColor = color(name);
      return element("span", {}, mark, `${label} `, latest[index]);
    });
    const box = element("div", { "aria-hidden": "true" });
    const title = shown.unit ? `${shown.title} (${shown.unit})` : shown.title;
    $("plots").append(element("figure", {}, element("figcaption", {}, title, ...legend), box));
    return { ...shown, box, latest };
  });
  // All boxes are there, so each has its width.
  live.plots = boxes.map((shown) => {
    const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "12px sans-serif" };
    const plot = new uPlot({
      width: shown.box.clientWidth || 300,
      height: PLOT_HEIGHT,
      legend: { show: false },
      cursor: { y: false, points: { size: 5 } },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, values: (_, ticks, __, ___, step) => ticks.map((tick) => clock(tick, step < 60)), space: 80, size: 28 }, { ...axis, values: tickLabels, size: 56 }],
      series: [{}, ...shown.lines.map(([label, name]) => ({
        label,
        stroke: color(name),
        width: 1.5,
        points: { show: false, filter: isolated, size: 4, fill: color(name) },
      }))],
    }, values(shown), shown.box);
    return { ...shown, plot };
  });
  showLatest();
}

/** Shows the last sample: in the legends, and as tiles. */
function showLatest() {
  const sample = live.samples.at(-1);
  if (!sample) return;
  for (const { lines, latest, digits = 0 } of live.plots) {
    lines.forEach(([label, , name = label, factor], index) => {
      latest[index].textContent = number(valueIn(sample, name, factor), digits);
    });
  }
  const sum = ["succeeded", "clientErrors", "unauthorized", "limited", "failed"].reduce((total, name) => total + (valueIn(sample, name) ?? 0), 0);
  const [hits, creating] = [valueIn(sample, "hits"), valueIn(sample, "creatingCommits")];
  const tiles = [
    ["Requests", number(sum), "/s"],
    ["p99", number(valueIn(sample, "p99"), 2), "ms"],
    ["Failed", number(valueIn(sample, "failed"), 1), "/s"],
    ["Limited (429)", number(valueIn(sample, "limited")), "/s"],
    ["Unauthorized (401)", number(valueIn(sample, "unauthorized")), "/s"],
    ["New bans", number(valueIn(sample, "bans"), 1), "/s"],
    ["Commits", number(valueIn(sample, "commits")), "/s"],
    ["Animals per commit", number(creating ? valueIn(sample, "rows") / creating : null, 1), ""],
    ["Cache hits", hits === null ? "–" : number(hits * 100, 1), hits === null ? "" : "%"],
    ["Connections", number(valueIn(sample, "connections")), ""],
    ["Waiting creations", number(valueIn(sample, "waiting")), ""],
    ["Memory", number(valueIn(sample, "memory", 1e-6), 1), "MB"],
  ];
  fill($("tiles"), ...tiles.map(([label, value, unit]) =>
    element("div", {}, element("dt", {}, label), element("dd", {}, value, element("small", {}, unit && ` ${unit}`)))));
}

function showState({ ready, checks, pets }) {
  const shown = $("ready");
  shown.textContent = ready ? "ready" : "not ready";
  shown.className = `badge ${ready ? "good" : "bad"}`;
  fill($("checks"), ...Object.entries(checks).map(([name, state]) => element("li", {}, `${name} `, badge(state))));
  const counts = pets ? Object.entries(pets) : [];
  const shownCounts = counts.length ? counts.map(([status, count]) => [status, number(count)]) : [["counting…", ""]];
  fill($("counts"), ...shownCounts.map(([status, count]) => element("div", {}, element("dt", {}, status), element("dd", {}, count))));
}

const levels = { ERROR: "bad", WARN: "caution" };

function showEvents(events) {
  // One that repeats the last one replaces it.
  const top = $("events").firstElementChild;
  const kind = ({ level, message, fields }) => `${level} ${message} ${fields}`;
  if (events[0]?.count > 1 && top?.dataset.kind === kind(events[0])) top.remove();
  const row = ({ time: at, level, message, fields, count }) =>
    element("tr", { "data-kind": kind({ level, message, fields }) }, element("td", {}, time(at)), element("td", {}, element("span", { class: `badge ${levels[level] ?? ""}` }, level)),
      element("td", {}, message, count > 1 ? ` (${number(count)} times)` : "", " ", element("small", {}, element("bdi", {}, fields))));
  $("events").prepend(...events.map(row).reverse());
  while ($("events").children.length > 200) $("events").lastChild.remove();
}

// The ID of this tab. It tells the server that a new stream replaces the last one of this tab. It is stored only while the page is
// reloaded, because a copy of the tab would copy it. If the browser does not allow storage, the ID changes with each reload.
let tab = Math.floor(Math.random() * 2 ** 53);
try {
  tab = sessionStorage.getItem("tab") ?? tab;
  sessionStorage.removeItem("tab");
  addEventListener("pagehide", () => sessionStorage.setItem("tab", tab));
} catch {
  // As above.
}

/** Opens the stream of live data. With a key, its requests by status are part of it. */
function openStream(key = null) {
  if (live.moved || (live.source && live.key === key)) return;
  live.source?.close();
  live.key = key;
  const source = new EventSource(`api/live?tab=${tab}${key ? `&key=${key}` : ""}`);
  live.source = source;
  // The first message is large.
  live.deadline = performance.now() + 2 * MAX_SILENCE;
  const on = (name, act) => source.addEventListener(name, ({ data }) => {
    live.deadline = performance.now() + MAX_SILENCE;
    act(JSON.parse(data));
  });
  // The first message, and again if this page has missed others.
  on("history", ({ names, samples }) => {
    live.lost = false;
    showLost(false);
    Object.assign(live, { names, samples });
    $("events").replaceChildren();
    if (!$("view-now").hidden) drawPlots();
  });
  on("sample", (sample) => {
    // The clock of the server may have been set back, and a plot needs ascending times.
    const earlier = live.samples.filter((one) => valueIn(one, "time") < valueIn(sample, "time"));
    live.samples = [...earlier, sample].slice(-900);
    if ($("view-now").hidden || document.hidden) return;
    for (const shown of live.plots) shown.plot.setData(values(shown));
    showLatest();
  });
  on("state", showState);
  on("events", showEvents);
  on("key", countKeyLive());
  // Opening it again would end that of another tab.
  on("replaced", () => {
    closeStream();
    showUnknown();
    showMoved(true);
  });
  source.onerror = loseStream;
}

/** Shows that the state is unknown, and reconnects in a moment: the browser would reopen only the stream, even if the server has been upgraded. */
function loseStream() {
  closeStream();
  live.lost = true;
  showUnknown();
  showLost(true);
  beginLater();
}

/** Detects a server that hangs and a network that loses everything: neither ends the stream. */
function checkStream() {
  if (live.source && performance.now() > live.deadline) loseStream();
}

setInterval(checkStream, 1000);
// The timers of a hidden page are late.
document.addEventListener("visibilitychange", checkStream);

function closeStream() {
  live.source?.close();
  live.source = null;
  live.key = null;
  showMoved(false);
}

function showUnknown() {
  for (const shown of document.querySelectorAll("#ready, #checks .badge")) {
    shown.textContent = "unknown";
    shown.className = "badge";
  }
}

function showMoved(moved) {
  live.moved = moved;
  $("moved").hidden = !moved;
}

$("resume").addEventListener("click", () => {
  showMoved(false);
  // Not `load`: the server may have another version by now.
  begin();
  focusView();
});

const nowView = {
  title: "Now",
  wait() {},
  async read({ signal }) {
    drawPlots();
    // Without a stream, nothing else detects that the session has ended.
    if (live.moved) await call("GET", "overview", { signal });
  },
  forget() {
    for (const { plot } of live.plots) plot.destroy();
    Object.assign(live, { names: [], samples: [], plots: [] });
    for (const part of ["plots", "tiles", "checks", "counts", "events"]) $(part).replaceChildren();
    showUnknown();
  },
};

addEventListener("resize", () => {
  for (const { plot, box } of live.plots) if (box.clientWidth) plot.setSize({ width: box.clientWidth, height: PLOT_HEIGHT });
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (!$("view-now").hidden) drawPlots();
});
