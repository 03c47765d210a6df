// The crosshair: where the pointer is in one chart of the page, in all of them, with the values of that moment.
// Arrow keys move it on a chart that has the focus. Charts bring their points along (data-chart).
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const tip = document.createElement("div");
tip.className = "chart-tip";
tip.hidden = true;
tip.setAttribute("role", "status");
document.body.append(tip);
let cross = null; // { ms, x, y }: the moment, and where the pointer is in the window

function dataOf(chart) {
  if (chart.known !== chart.dataset.chart) {
    chart.known = chart.dataset.chart;
    chart.data = JSON.parse(chart.known);
  }
  return chart.data;
}

function valueText(value, unit) {
  if (unit === "bytes") {
    const power = value < 1024 ? 0 : Math.min(SIZES.length - 1, Math.floor(Math.log(value) / Math.log(1024)));
    return `${Number((value / 1024 ** power).toPrecision(3))} ${SIZES[power]}`;
  }
  return Number(value.toPrecision(4)).toLocaleString("en-GB").replaceAll(",", "\u2009");
}

// The point at a moment: the nearest one, unless that is a gap or far away.
function pointAt(data, points, ms) {
  const at = ms - data.begin;
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < at) low = middle + 1;
    else high = middle;
  }
  const found = low > 0 && at - points[low - 1][0] < points[low][0] - at ? points[low - 1] : points[low];
  return found && found[1] !== null && Math.abs(found[0] - at) <= (data.end - data.begin) / 20 ? found : null;
}

function drawCross(chart) {
  const data = dataOf(chart);
  chart.querySelector(".cross")?.remove();
  if (!cross || cross.ms < data.begin || cross.ms > data.end) return;
  const share = `${((cross.ms - data.begin) / (data.end - data.begin)) * 100}%`;
  const line = document.createElementNS(SVG, "line");
  const place = { class: "cross", x1: share, x2: share, y1: data.ceiling, y2: data.floor };
  for (const [name, value] of Object.entries(place)) line.setAttribute(name, value);
  chart.append(line);
}

function showTip(chart) {
  const data = dataOf(chart);
  const time = document.createElement("b");
  time.textContent = localTime(cross.ms);
  time.title = utcTime(cross.ms);
  const rows = data.series.map((line, number) => {
    const found = pointAt(data, line.points, cross.ms);
    const row = document.createElement("span");
    const name = document.createElement("span");
    const mark = document.createElement("i");
    mark.className = `s${number % 6}`;
    name.append(mark, line.name);
    const value = document.createElement("span");
    value.textContent = found ? valueText(found[1], data.unit) : "no sample";
    row.append(name, value);
    return row;
  });
  tip.replaceChildren(time, ...rows);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = cross.x + 14 + box.width > innerWidth ? cross.x - 14 - box.width : cross.x + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, Math.min(cross.y + 14, innerHeight - box.height - 4))}px`;
}

function everyChart(act) {
  document.querySelectorAll("svg[data-chart]").forEach(act);
}

function moveCross(chart, ms, x, y) {
  const data = dataOf(chart);
  cross = { ms: Math.min(data.end, Math.max(data.begin, ms)), x, y };
  everyChart(drawCross);
  showTip(chart);
}

function hideCross() {
  if (!cross) return;
  cross = null;
  tip.hidden = true;
  everyChart(drawCross);
}

document.addEventListener("pointermove", (event) => {
  const chart = event.target instanceof Element && event.target.closest("svg[data-chart]");
  if (!chart) return hideCross();
  const data = dataOf(chart);
  const box = chart.getBoundingClientRect();
  moveCross(chart, data.begin + ((event.clientX - box.left) / box.width) * (data.end - data.begin), event.clientX, event.clientY);
});

document.addEventListener("keydown", (event) => {
  const chart = event.target instanceof Element && event.target.closest("svg[data-chart]");
  if (!chart || !["ArrowLeft", "ArrowRight", "Escape"].includes(event.key)) return;
  event.preventDefault();
  if (event.key === "Escape") return hideCross();
  const data = dataOf(chart);
  const step = ((data.end - data.begin) / 60) * (event.key === "ArrowLeft" ? -1 : 1);
  const ms = Math.min(data.end, Math.max(data.begin, (cross ? cross.ms : data.end) + step));
  const box = chart.getBoundingClientRect();
  moveCross(chart, ms, box.left + ((ms - data.begin) / (data.end - data.begin)) * box.width, box.top + 20);
});

document.addEventListener("focusout", (event) => {
  if (event.target instanceof Element && event.target.matches("svg[data-chart]")) hideCross();
});

document.addEventListener("replaced", () => cross && everyChart(drawCross)); // fresh points come without the line
