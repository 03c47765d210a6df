// Times: shown in the reader's zone with UTC on hover; relative ones ("12 s ago", "in 5 min") tick.
//
//   <time data-ms="…">                  a moment; without scripts it is in UTC
//   <time data-ms="…" data-precise>     a moment to the millisecond
//   <time data-ms="…" data-relative>    how long ago, or in how long, by the server's clock
//   <text data-ms="…" data-step="…">    a label of a chart's time axis
//   <input data-moment>                 a moment is typed: in the reader's zone, and sent with its offset from UTC; the
//                                       element that describes it says so. Without scripts it is read as UTC
"use strict";

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const clockAhead = Date.now() - Number(document.documentElement.dataset.nowMs || Date.now()); // of this machine
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const two = (number) => String(number).padStart(2, "0");

function day(when) {
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
}

function timeOfDay(when) {
  return `${two(when.getHours())}:${two(when.getMinutes())}:${two(when.getSeconds())}`;
}

function localTime(ms) {
  const when = new Date(ms);
  return `${day(when)} ${timeOfDay(when)}`;
}

function preciseTime(ms) {
  return `${localTime(ms)}.${String(ms % 1000).padStart(3, "0")}`;
}

function utcTime(ms) {
  return `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

// The two largest units, as the server writes spans.
function spanText(ms) {
  let left = Math.max(0, Math.floor(ms / 1000));
  const parts = UNITS.map(([size, name]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return [count, name];
  });
  const first = parts.findIndex(([count]) => count);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).filter(([count]) => count).map((each) => each.join(" ")).join(" ");
}

function relativeText(ms) {
  const away = ms - (Date.now() - clockAhead);
  return away > 0 ? `in ${spanText(away)}` : `${spanText(-away)} ago`;
}

function axisLabel(ms, step) {
  const when = new Date(ms);
  if (step >= 86400000) return when.toLocaleDateString("en-GB", { day: "2-digit", month: "short" });
  if (step >= 60000) return `${two(when.getHours())}:${two(when.getMinutes())}`;
  if (step >= 1000) return timeOfDay(when);
  return `${two(when.getMinutes())}:${two(when.getSeconds())}.${Math.floor((ms % 1000) / 100)}`;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function showTimes(within) {
  for (const each of within.querySelectorAll("time[data-ms]")) {
    const ms = Number(each.dataset.ms);
    const relative = each.hasAttribute("data-relative");
    const title = relative ? `${localTime(ms)}\n${utcTime(ms)}` : utcTime(ms);
    if (each.title !== title) each.title = title;
    write(each, relative ? relativeText(ms) : each.hasAttribute("data-precise") ? preciseTime(ms) : localTime(ms));
  }
  for (const each of within.querySelectorAll("text[data-ms]")) write(each, axisLabel(Number(each.dataset.ms), Number(each.dataset.step)));
  for (const each of within.querySelectorAll(".zone")) write(each, `time in ${zone}`);
}

// --- moments that are typed ---

// Milliseconds of a time without a zone, which the reader means in theirs; null for everything else ("2h ago").
function typedMoment(text) {
  const found = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?))?$/.exec(text.trim());
  const ms = found ? new Date(`${found[1]}T${found[2] || "00:00"}`).getTime() : NaN;
  return Number.isNaN(ms) ? null : ms;
}

function withOffset(ms) {
  const when = new Date(ms);
  const ahead = -when.getTimezoneOffset();
  const offset = `${ahead < 0 ? "-" : "+"}${two(Math.floor(Math.abs(ahead) / 60))}:${two(Math.abs(ahead) % 60)}`;
  return `${day(when)}T${timeOfDay(when)}${offset}`;
}

function describeMoment(input) {
  const help = document.getElementById(`h-${input.name}`);
  const ms = typedMoment(input.value);
  if (help) write(help, ms === null ? `Time in ${zone}` : `= ${utcTime(ms)}`);
}

for (const each of document.querySelectorAll("input[data-moment]")) describeMoment(each);
document.addEventListener("input", (event) => {
  if (event.target.matches("input[data-moment]")) describeMoment(event.target);
});
document.addEventListener("submit", (event) => {
  for (const each of event.target.querySelectorAll("input[data-moment]")) {
    const ms = typedMoment(each.value);
    if (ms !== null) each.value = withOffset(ms);
  }
}, true);

showTimes(document);
setInterval(() => {
  if (document.hidden) return;
  for (const each of document.querySelectorAll("time[data-relative]")) {
    if (!isSelected(each)) write(each, relativeText(Number(each.dataset.ms)));
  }
}, 1000);
