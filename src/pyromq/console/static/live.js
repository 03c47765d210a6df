// Live pages: regions come again and are changed in place, so that focus, selection, scroll and open parts stay.
//
//   data-live="5"        an element with an id: fetched again every 5 seconds from this page
//   data-stream="/path"  server-sent events "region": HTML of elements, each for the one with its id;
//                        events named in data-events are handed on as DOM events "stream:<name>" of the element
//   data-pause           the button of the bar that says Live or Paused, and switches
//   data-row="key"       an element that keeps its identity when others come before it
"use strict";

let paused = false;
let lost = false;
let connecting = Boolean(document.querySelector("[data-stream]"));
const liveButton = document.querySelector("[data-pause]");

// --- changing what differs, and nothing else ---

function isSelected(node) {
  const selection = getSelection();
  return Boolean(selection && !selection.isCollapsed && selection.containsNode(node, true));
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.row || "" : "";
}

function isAlike(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);
}

function morphAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    const ours = name === "open" && old.matches("details") || name === "disabled" && old.matches("button");
    if (!fresh.hasAttribute(name) && !ours) old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
}

function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data && !isSelected(old)) old.data = fresh.data;
    return;
  }
  if (old === document.activeElement && old.matches("input, textarea, select")) return; // somebody writes there
  morphAttributes(old, fresh);
  if (!old.matches("textarea")) morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const keyed = new Map([...old.children].filter(keyOf).map((each) => [keyOf(each), each]));
  let at = old.firstChild;
  for (const each of [...fresh.childNodes]) {
    const same = keyOf(each) ? keyed.get(keyOf(each)) : at && !keyOf(at) && isAlike(at, each) ? at : null;
    if (same && isAlike(same, each)) {
      if (same === at) at = at.nextSibling;
      else old.insertBefore(same, at);
      morph(same, each);
    } else {
      old.insertBefore(document.importNode(each, true), at);
      if (at && !keyOf(at) && at.nodeType === each.nodeType && !holdsPerson(at)) at = removed(at);
    }
  }
  while (at) at = holdsPerson(at) ? at.nextSibling : removed(at);
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// Focus or a selection lies in it: it stays until the next time.
function holdsPerson(node) {
  const active = document.activeElement;
  return (active && active !== document.body && node.contains(active)) || isSelected(node);
}

function replaceRegion(fresh) {
  const old = fresh.id && document.getElementById(fresh.id);
  if (!old) return;
  showTimes(fresh);
  morph(old, fresh);
  old.dispatchEvent(new CustomEvent("replaced", { bubbles: true }));
}

function parsed(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

// --- where it comes from ---

async function refresh(selector) {
  const answer = await fetch(location.href, { headers: { "X-Part": "1" } });
  if (answer.redirected && new URL(answer.url).pathname === "/login") return location.reload();
  if (!answer.ok) throw new Error(answer.statusText);
  const page = parsed(await answer.text());
  for (const each of page.querySelectorAll(`${selector}, .nav-badge`)) if (!paused) replaceRegion(each);
}

function startRefreshing() {
  // the shortest interval of the page counts; a region that comes back may name another one
  const seconds = () => Math.min(...[...document.querySelectorAll("[data-live]")].map((each) => Number(each.dataset.live)));
  const again = async () => {
    if (!paused && !document.hidden) {
      try {
        await refresh("[data-live]");
        showState(false);
      } catch {
        showState(true);
      }
    }
    if (Number.isFinite(seconds())) setTimeout(again, seconds() * 1000);
  };
  if (Number.isFinite(seconds())) setTimeout(again, seconds() * 1000);
}

function startStream(element) {
  const source = new EventSource(element.dataset.stream);
  const connected = (isLost) => {
    connecting = false;
    showState(isLost);
  };
  source.addEventListener("open", () => connected(false));
  source.addEventListener("error", () => connected(true));
  source.addEventListener("region", (event) => {
    if (!paused) for (const each of [...parsed(event.data).body.children]) replaceRegion(each);
  });
  for (const name of (element.dataset.events || "").split(" ").filter(Boolean)) {
    source.addEventListener(name, (event) => {
      element.dispatchEvent(new CustomEvent(`stream:${name}`, { detail: event.data, bubbles: true }));
    });
  }
  addEventListener("pagehide", () => source.close());
}

// --- live or paused ---

function showState(isLost) {
  lost = isLost;
  if (!liveButton) return;
  liveButton.hidden = false;
  liveButton.classList.toggle("paused", paused);
  liveButton.classList.toggle("lost", lost && !paused);
  const [text, what] = paused ? ["Paused", "Resume updates (p)"] : connecting ? ["Connecting", "Updates begin in a moment"] : lost ? ["Connection lost", "Trying again"] : ["Live", "Pause updates (p)"];
  if (liveButton.textContent !== text) liveButton.textContent = text;
  liveButton.title = what;
}

function togglePause() {
  if (!document.querySelector("[data-live], [data-stream]")) return;
  paused = !paused;
  showState(lost);
  document.dispatchEvent(new CustomEvent("paused", { detail: paused }));
  if (!paused && document.querySelector("[data-live]")) refresh("[data-live]").catch(() => showState(true));
}

if (document.querySelector("[data-live], [data-stream]")) showState(false);
startRefreshing();
document.querySelectorAll("[data-stream]").forEach(startStream);
