// The console's script: pages work without it, it makes them live and handy.
//
//   data-live="5"            an element with an id: fetched again every 5 seconds from this page, and replaced
//   data-stream="/path"      server-sent events "region": HTML of an element, which replaces the one with its id;
//                            any other event is handed on as a DOM event "stream:<name>" of the element
//   form data-confirm="…"    asks before it sends
//   data-copy="text"         copies it
//   data-search, data-key    the field that "/" goes to; the letter that opens a link after "g"
"use strict";

const root = document.documentElement;
root.classList.add("scripted");
let paused = false;

// --- theme ---

function shownTheme() {
  return root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function switchTheme() {
  root.dataset.theme = shownTheme() === "dark" ? "light" : "dark";
  document.cookie = `pyromq_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;
}

// --- moments: UTC is shown, the local time is in the title ---

function localTimes(within) {
  for (const each of within.querySelectorAll("time[data-ms]")) {
    const local = new Date(Number(each.dataset.ms));
    if (!each.title.includes("\n")) each.title += `\n${local.toLocaleString()} here`;
  }
}

// --- regions that are replaced ---

function isBusy(element) {
  const active = document.activeElement;
  return element.contains(active) && active.matches("input, textarea, select, button");
}

function replaceRegion(fresh) {
  const old = fresh.id && document.getElementById(fresh.id);
  if (!old || isBusy(old)) return;
  const open = [...old.querySelectorAll("details[id][open]")].map((each) => each.id);
  const adopted = document.importNode(fresh, true);
  for (const each of adopted.querySelectorAll("details[id]")) each.open = each.open || open.includes(each.id);
  old.replaceWith(adopted);
  localTimes(adopted);
  adopted.dispatchEvent(new CustomEvent("replaced", { bubbles: true }));
}

function parsed(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

async function refresh(selector) {
  const answer = await fetch(location.href, { headers: { "X-Part": "1" } });
  if (answer.redirected && new URL(answer.url).pathname === "/login") return location.reload();
  if (!answer.ok) throw new Error(answer.statusText);
  const page = parsed(await answer.text());
  for (const each of page.querySelectorAll(`${selector}, .nav-badge`)) replaceRegion(each);
}

function marks(state, text) {
  for (const each of document.querySelectorAll(".live-mark")) {
    each.classList.toggle("on", state === "on");
    each.classList.toggle("lost", state === "lost");
    each.textContent = text;
  }
}

function startRefreshing() {
  // the shortest interval of the page counts; a region that comes back may name another one
  const seconds = () => Math.min(...[...document.querySelectorAll("[data-live]")].map((each) => Number(each.dataset.live)));
  const again = async () => {
    if (!paused && !document.hidden) {
      try {
        await refresh("[data-live]");
        marks("on", "live");
      } catch {
        marks("lost", "connection lost");
      }
    }
    setTimeout(again, seconds() * 1000);
  };
  if (Number.isFinite(seconds())) setTimeout(again, seconds() * 1000);
}

function startStream(element) {
  const source = new EventSource(element.dataset.stream);
  source.addEventListener("open", () => marks("on", "live"));
  source.addEventListener("error", () => marks("lost", "connection lost"));
  source.addEventListener("region", (event) => {
    if (!paused) for (const each of parsed(event.data).body.children) replaceRegion(each);
  });
  for (const name of (element.dataset.events || "").split(" ").filter(Boolean)) {
    source.addEventListener(name, (event) => {
      element.dispatchEvent(new CustomEvent(`stream:${name}`, { detail: event.data, bubbles: true }));
    });
  }
  addEventListener("pagehide", () => source.close());
}

function togglePause() {
  paused = !paused;
  marks(paused ? "" : "on", paused ? "paused" : "live");
}

// --- forms that ask first ---

const confirmDialog = document.getElementById("confirm");
let asking = null;

document.addEventListener("submit", (event) => {
  const form = event.target;
  const text = (event.submitter && event.submitter.dataset.confirm) || form.dataset.confirm;
  if (text && asking !== form) {
    event.preventDefault();
    asking = form;
    form.confirmedBy = event.submitter;
    document.getElementById("confirm-text").textContent = text;
    confirmDialog.showModal();
    return;
  }
  asking = null;
  if (form.method === "post") {
    // a second click sends nothing twice; the button's own name and value have been taken already
    setTimeout(() => form.querySelectorAll("button").forEach((each) => (each.disabled = true)));
  }
});

addEventListener("pageshow", () => {
  document.querySelectorAll("form button[disabled]").forEach((each) => {
    if (!each.hasAttribute("data-disabled")) each.disabled = false;
  });
});

// --- clicks ---

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = before), 1500);
  } catch {
    const range = document.createRange();
    const shown = button.parentElement.querySelector("code");
    if (shown) {
      range.selectNodeContents(shown);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
    }
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button, [data-check-all]");
  if (!button) return;
  if (button.dataset.copy !== undefined) copy(button);
  else if (button.hasAttribute("data-theme-switch")) switchTheme();
  else if (button.hasAttribute("data-help-open")) document.getElementById("help").showModal();
  else if (button.hasAttribute("data-help-close")) document.getElementById("help").close();
  else if (button.hasAttribute("data-pause")) togglePause();
  else if (button.hasAttribute("data-menu")) {
    const nav = document.getElementById("nav");
    if (nav) button.setAttribute("aria-expanded", String(nav.classList.toggle("open")));
  } else if (button.hasAttribute("data-confirm-no")) {
    asking = null;
    confirmDialog.close();
  } else if (button.hasAttribute("data-confirm-yes")) {
    confirmDialog.close();
    if (asking) asking.requestSubmit(asking.confirmedBy || undefined);
  } else if (button.hasAttribute("data-check-all")) {
    const boxes = document.querySelectorAll(`input[type="checkbox"][name="${CSS.escape(button.dataset.checkAll)}"]`);
    boxes.forEach((each) => (each.checked = button.checked));
  }
});

confirmDialog.addEventListener("cancel", () => (asking = null));

// selects that send their form when they change
document.addEventListener("change", (event) => {
  if (event.target.hasAttribute("data-submit")) event.target.form.requestSubmit();
});

// --- keys ---

let afterG = false;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select, [contenteditable]")) return;
  if (document.querySelector("dialog[open]")) return;
  const follow = (selector) => {
    const link = document.querySelector(selector);
    if (link) link.click();
    return Boolean(link);
  };
  if (afterG) {
    afterG = false;
    root.classList.remove("keys-shown");
    if (/^[a-z]$/.test(event.key) && follow(`.nav a[data-key="${event.key}"]`)) event.preventDefault();
  } else if (event.key === "g") {
    afterG = true;
    root.classList.add("keys-shown");
    setTimeout(() => ((afterG = false), root.classList.remove("keys-shown")), 1500);
  } else if (event.key === "/") {
    const field = document.querySelector("[data-search]");
    if (field) {
      event.preventDefault();
      field.select();
    }
  } else if (event.key === "?") document.getElementById("help").showModal();
  else if (event.key === "p") togglePause();
  else if (event.key === "[") follow('a[rel="prev"]');
  else if (event.key === "]") follow('a[rel="next"]');
});

// --- begin ---

localTimes(document);
startRefreshing();
document.querySelectorAll("[data-stream]").forEach(startStream);
