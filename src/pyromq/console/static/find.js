// The search field of every page: what it finds while one types, and the way through it by keys.
//
//   data-find     the field; without this script it is a form that leads to /search
//   data-hit      a link of a result; arrows move between them, on the page of results too
"use strict";

const findField = document.querySelector("[data-find]");
const findHits = document.getElementById("find-hits");
let findAsked = 0;
let findTimer = 0;

function hitsIn(box) {
  return [...box.querySelectorAll("a[data-hit]")];
}

function closeHits() {
  findHits.hidden = true;
  findField.setAttribute("aria-expanded", "false");
  findField.removeAttribute("aria-activedescendant");
}

function chooseHit(step) {
  const hits = hitsIn(findHits);
  const now = hits.findIndex((each) => each.getAttribute("aria-selected") === "true");
  const next = now < 0 && step < 0 ? hits.length - 1 : Math.min(hits.length - 1, now + step);
  hits.forEach((each, place) => each.setAttribute("aria-selected", String(place === next)));
  if (next >= 0) {
    findField.setAttribute("aria-activedescendant", hits[next].id);
    hits[next].scrollIntoView({ block: "nearest" });
  } else findField.removeAttribute("aria-activedescendant");
}

async function suggest() {
  const text = findField.value.trim();
  const asked = ++findAsked;
  if (!text) return closeHits();
  let page;
  try {
    const answer = await fetch(`/search?names=1&q=${encodeURIComponent(text)}`, { headers: { "X-Part": "1" } });
    if (!answer.ok || answer.redirected) return closeHits();
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return closeHits();
  }
  if (asked !== findAsked || document.activeElement !== findField) return;
  const found = [...page.querySelectorAll("[data-hits] > .hits")].map((each) => document.importNode(each, true));
  findHits.replaceChildren(...found);
  hitsIn(findHits).forEach((each, place) => {
    each.id = `hit-${place}`;
    each.tabIndex = -1;
    each.setAttribute("role", "option");
    each.setAttribute("aria-selected", "false");
  });
  findHits.hidden = !found.length;
  findField.setAttribute("aria-expanded", String(!findHits.hidden));
}

if (findField) {
  findField.addEventListener("input", () => {
    clearTimeout(findTimer);
    findTimer = setTimeout(suggest, 120);
  });
  findField.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (findHits.hidden) return;
      event.preventDefault();
      chooseHit(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      const chosen = findHits.querySelector('a[aria-selected="true"]');
      if (!chosen || findHits.hidden) return;
      event.preventDefault();
      chosen.click();
    } else if (event.key === "Escape") {
      if (findHits.hidden) findField.blur();
      closeHits();
    }
  });
  findField.addEventListener("blur", () => setTimeout(closeHits, 150)); // a click on a result comes first
}

// on the page of results, arrows go through them
const shownHits = document.querySelector("main [data-hits]");
if (shownHits) {
  const first = hitsIn(shownHits)[0];
  if (first) first.focus({ preventScroll: true });
  shownHits.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const hits = hitsIn(shownHits);
    const next = hits[hits.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) {
      event.preventDefault();
      next.focus();
    }
  });
}
