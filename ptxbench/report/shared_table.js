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
