// Tables that are sorted, filtered and exported. A column has an id, a heading and what a row is sorted by; `n`
// marks numbers, `wide` what leaves at phone width.
const classes = (column, ...more) => [column.n ? "n" : "", column.wide ? "wide" : "", ...more].filter(Boolean).join(" ") || null;
const isNone = (value) => value === null || value === undefined || value === "";
// What has no number stays at the end, whichever the order.
function ordered(found, column, down) {
  if (!column) return found;
  const keyed = found.map((row, i) => [column.sort(row), i, row]);
  keyed.sort(([a, i], [b, j]) => {
    if (isNone(a) || isNone(b)) return isNone(a) - isNone(b) || i - j;
    const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return (down ? -order : order) || i - j;
  });
  return keyed.map(([, , row]) => row);
}
function headings(columns, sortBy) {
  for (const column of columns) {
    const button = make("button", { type: "button", title: column.title || null }, column.head);
    button.addEventListener("click", () => sortBy(column.id));
    $("head").append(make("th", { scope: "col", "data-id": column.id, class: classes(column) }, button));
  }
}
function showOrder(id, down) {
  for (const th of $("head").children) {
    if (th.dataset.id === id) th.setAttribute("aria-sort", down ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  }
}
const noRow = (columns) => make("tr", {}, make("td", { colspan: columns.length }, "No row fits. Clear a filter."));
function choices(name, values) {
  $("f-" + name).append(make("option", { value: "" }, "all"), ...values.map((value) => make("option", { value }, value)));
}
// What is shown: the words of the search, the filters, the order. All of it stands in the address, with the open
// row of a page that has one.
const state = { q: "", sort: "", down: false, row: "" };
const FILTERS = [...document.querySelectorAll("#filters select")].map((one) => one.id.replace("f-", ""));
const wanted = (name) => $("f-" + name).value;
function setHash() {
  const words = new URLSearchParams();
  if (state.q) words.set("q", state.q);
  for (const name of FILTERS) if (wanted(name)) words.set(name, wanted(name));
  if (state.sort) words.set("sort", (state.down ? "-" : "") + state.sort);
  if (state.row) words.set("row", state.row);
  history.replaceState(null, "", "#" + words);
}
// Returns whether it is an address of this kind; that of the skip link changes nothing.
function readHash(columns) {
  if (location.hash === "#table") return false;
  const words = new URLSearchParams(location.hash.slice(1)), sort = words.get("sort") || "";
  state.q = $("q").value = words.get("q") || "";
  for (const name of FILTERS) $("f-" + name).value = words.get(name) || "";
  state.down = sort.startsWith("-");
  state.sort = (columns.find((column) => column.id === sort.slice(state.down ? 1 : 0)) || { id: "" }).id;
  state.row = words.get("row") || "";
  return true;
}
function clearFilters() {
  state.q = $("q").value = "";
  for (const name of FILTERS) $("f-" + name).value = "";
}
// Calls `changed` when other rows are wanted, and `sorted` when their order is.
function onChange(columns, changed, sorted) {
  const done = (call) => { call(); setHash(); };
  let typing = 0;
  for (const name of FILTERS) $("f-" + name).addEventListener("change", () => done(changed));
  headings(columns, (id) => { state.down = state.sort === id && !state.down; state.sort = id; done(sorted); });
  $("q").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => { state.q = $("q").value; done(changed); }, 80);
  });
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("reset", (event) => { event.preventDefault(); clearFilters(); done(changed); });
}
