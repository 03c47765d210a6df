// The console's script: pages work without it, it makes them handy. ask.js, live.js, times.js and charts.js do the rest.
//
//   data-copy="text"         copies it
//   data-search, data-key    the field that "f" goes to; the letter that opens a link after "g"
//   data-find                the field that "/" goes to (find.js)
"use strict";

const root = document.documentElement;
root.classList.add("scripted");

// --- theme ---

function shownTheme() {
  return root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function switchTheme() {
  root.dataset.theme = shownTheme() === "dark" ? "light" : "dark";
  document.cookie = `pyromq_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;
}

function switchDensity() {
  const compact = root.dataset.density !== "compact";
  if (compact) root.dataset.density = "compact";
  else delete root.dataset.density;
  document.querySelector("[data-density-switch]").setAttribute("aria-pressed", String(compact));
  document.cookie = `pyromq_density=${compact ? "compact" : ""}; path=/; max-age=31536000; samesite=strict`;
}

// --- forms ---

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
  else if (button.hasAttribute("data-density-switch")) switchDensity();
  else if (button.hasAttribute("data-help-open")) document.getElementById("help").showModal();
  else if (button.hasAttribute("data-help-close")) document.getElementById("help").close();
  else if (button.hasAttribute("data-pause")) togglePause();
  else if (button.hasAttribute("data-menu")) {
    const nav = document.getElementById("nav");
    if (nav) button.setAttribute("aria-expanded", String(nav.classList.toggle("open")));
  } else if (button.hasAttribute("data-check-all")) {
    const boxes = document.querySelectorAll(`input[type="checkbox"][name="${CSS.escape(button.dataset.checkAll)}"]`);
    boxes.forEach((each) => (each.checked = button.checked));
  }
});

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
  } else if (event.key === "/" || event.key === "f") {
    const field = document.querySelector(event.key === "/" ? "[data-find]" : "[data-search]");
    if (field) {
      event.preventDefault();
      field.select();
    }
  } else if (event.key === "?") document.getElementById("help").showModal();
  else if (event.key === "p") togglePause();
  else if (event.key === "d") switchDensity();
  else if (event.key === "[") follow('a[rel="prev"]');
  else if (event.key === "]") follow('a[rel="next"]');
});

// --- wide tables: who has only a keyboard scrolls them too ---

function openScrollers() {
  for (const each of document.querySelectorAll(".scroll, main pre")) {
    const isWide = each.scrollWidth > each.clientWidth;
    if (each.matches(".scroll") && each.querySelector("table")) each.toggleAttribute("data-more", isWide);
    if (isWide || each.scrollHeight > each.clientHeight) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
}

openScrollers();
addEventListener("resize", openScrollers);
document.addEventListener("replaced", openScrollers);
