// The live tail: rows come as events of a stream (app.js hands them on), text is only ever text.
"use strict";

const ROWS_MAX = 500;
const tail = document.querySelector("[data-tail]");
const part = (name) => tail.querySelector(`[data-tail-${name}]`);
let isPaused = false;
let dropped = 0;
let missed = 0;

function cell(row, text, name) {
  const made = document.createElement("td");
  if (name) made.className = name;
  made.textContent = text;
  row.append(made);
  return made;
}

function show(message) {
  const row = document.createElement("tr");
  row.className = "fresh";
  const millis = String(message.stored_ms % 1000).padStart(3, "0");
  const when = cell(row, `${timeOfDay(new Date(message.stored_ms))}.${millis}`, "nowrap mono");
  when.title = utcTime(message.stored_ms);
  const link = document.createElement("a");
  link.className = "mono id";
  link.href = `${tail.dataset.tail}/${encodeURIComponent(message.offset_message_id)}`;
  link.textContent = message.message_id;
  cell(row, "").append(link);
  cell(row, `${message.broker}:${message.queue} @ ${message.offset}`, "soft nowrap");
  const marks = cell(row, "");
  if (message.tags) {
    const tag = document.createElement("span");
    tag.className = "badge accent";
    tag.textContent = message.tags;
    marks.append(tag, " ");
  }
  for (const key of message.keys) {
    const shown = document.createElement("span");
    shown.className = "key mono";
    shown.textContent = key;
    marks.append(shown, " ");
  }
  const excerpt = document.createElement("span");
  excerpt.className = "mono";
  excerpt.textContent = message.excerpt;
  cell(row, "", "excerpt").append(excerpt);
  const rows = part("rows");
  rows.prepend(row);
  while (rows.children.length > ROWS_MAX) rows.lastElementChild.remove();
  part("count").textContent = String(rows.children.length);
  part("empty").hidden = true;
}

function tellDropped() {
  const parts = [];
  if (dropped) parts.push(`${dropped} dropped: too many at once`);
  if (missed) parts.push(`${missed} passed by while paused`);
  part("dropped").textContent = parts.join(", ");
  part("dropped").hidden = !parts.length;
  part("dropped").classList.toggle("warning", parts.length > 0);
}

tail.addEventListener("stream:message", (event) => {
  part("problem").hidden = true;
  if (isPaused) {
    missed += 1;
    tellDropped();
  } else show(JSON.parse(event.detail));
});

tail.addEventListener("stream:dropped", (event) => {
  dropped += JSON.parse(event.detail).count;
  tellDropped();
});

tail.addEventListener("stream:problem", (event) => {
  part("problem").textContent = JSON.parse(event.detail).detail;
  part("problem").hidden = false;
});

document.addEventListener("paused", (event) => (isPaused = event.detail)); // the button of the bar

part("clear").addEventListener("click", () => {
  part("rows").replaceChildren();
  part("count").textContent = "0";
  part("empty").hidden = false;
  dropped = missed = 0;
  tellDropped();
});
