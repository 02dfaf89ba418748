"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const RUN_COLORS = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => `var(--run${i})`);
const color = (run) => RUN_COLORS[run % RUN_COLORS.length];

// All text goes into the page by textContent or setAttribute; nothing is parsed as markup.
function make(tag, attributes, ...children) {
  const svg = ["svg", "g", "line", "rect", "circle", "path", "text", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  for (const child of children.flat(3)) if (child !== null && child !== "") element.append(child);
  return element;
}

const number = (value, digits = 4) => {
  if (value === null || value === undefined) return "–";
  const text = Number(value.toPrecision(digits));
  return Math.abs(text) >= 1e6 || (text !== 0 && Math.abs(text) < 1e-3) ? text.toExponential() : String(text);
};
const percent = (fraction) => (fraction > 0 && fraction < 1e-4 ? "<0.01%" : Number((fraction * 100).toPrecision(2)) + "%");

// Plots: one frame for all, in its own units.
const WIDTH = 440, HEIGHT = 300, LEFT = 68, RIGHT = 12, TOP = 10, BOTTOM = 40;
function ticks(from, to) {
  const found = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.ceil(Math.log10(to)); power++) {
    for (const step of [1, 2, 5]) {
      const value = step * 10 ** power;
      if (value >= from * 0.999 && value <= to * 1.001) found.push(value);
    }
  }
  if (found.length < 3) return linearTicks(from, to);
  return found.length > 9 ? found.filter((value) => /^1(e|0*$)/.test(String(value)) || /^0\.0*1$/.test(String(value))) : found;
}
function logScale(values, start, end) {
  const from = Math.min(...values) * 0.8, to = Math.max(...values) * 1.25;
  const place = (value) => start + (end - start) * Math.log(value / from) / Math.log(to / from);
  return { place, ticks: ticks(from, to), from, to };
}
// Round numbers from one to another, eight steps at most.
function linearTicks(from, to) {
  const least = (to - from) / 8, power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least);
  const found = [];
  for (let n = Math.ceil(from / step); n * step <= to; n++) found.push(Number((n * step).toPrecision(12)));
  return found;
}
// A plain axis, by so much longer at both ends than values reach.
function linearScale(values, start, end, beyond) {
  const low = Math.min(...values), high = Math.max(...values), more = high > low ? beyond * (high - low) : Math.abs(high) / 10 || 1;
  const from = low - more, to = high + more;
  return { place: (value) => start + (end - start) * (value - from) / (to - from), ticks: linearTicks(from, to), from, to };
}
const tick = (value) => (value >= 1e5 ? value.toExponential().replace("+", "") : number(value));
function frame(label) {
  return make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
}
function axes(svg, x, y, xTitle, yTitle, left = LEFT, height = HEIGHT) {
  const bottom = height - BOTTOM, text = (scale, value) => (scale.names ? scale.names[value] : tick(value));
  for (const value of x.ticks) {
    svg.append(make("line", { class: "grid", x1: x.place(value), x2: x.place(value), y1: TOP, y2: bottom }));
    svg.append(make("text", { x: x.place(value), y: bottom + 16, "text-anchor": "middle" }, text(x, value)));
  }
  for (const value of y.ticks) {
    svg.append(make("line", { class: "grid", x1: left, x2: WIDTH - RIGHT, y1: y.place(value), y2: y.place(value) }));
    svg.append(make("text", { x: left - 6, y: y.place(value) + 4, "text-anchor": "end" }, text(y, value)));
  }
  svg.append(make("text", { class: "faint", x: (left + WIDTH - RIGHT) / 2, y: height - 6, "text-anchor": "middle" }, xTitle));
  svg.append(make("text", { class: "faint", transform: `translate(12 ${(TOP + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, yTitle));
}
function csvCell(value) {
  if (value === null || value === undefined) return "";
  let text = String(value);
  // A spreadsheet would take a text that begins so for a formula; as in ptxbench/core/printable.py.
  if (typeof value === "string" && /^['\s]*[=+\-@]/.test(text)) text = "'" + text;
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}
function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
// One GPU or run in the list above the table, with the color of its marks where there are several.
function listed(name, about, run = null) {
  const dot = run === null ? null : make("span", { class: "dot", "aria-hidden": "true" });
  if (dot) dot.style.background = color(run);
  $("runs").append(make("li", {}, dot, make("b", {}, name), make("span", { class: "soft" }, " · " + about)));
}
const csvOf = (names, rows) => [names.join(","), ...rows.map((row) => names.map((name) => csvCell(row[name])).join(","))].join("\n") + "\n";
// The two buttons write what `csvText` and `jsonText` of the page return.
function exportsAs(file) {
  $("csv").addEventListener("click", () => download(file + ".csv", "text/csv", csvText()));
  $("json").addEventListener("click", () => download(file + ".json", "application/json", jsonText()));
}
