// Forms that ask before they send: form data-confirm="…", or a button of it.
//
// The page waits for this script, unlike the others: a button that is clicked before it is here would send without asking.
"use strict";

let asking = null;

// In a question: "{count:message}" is how many rows of the form are ticked, "{chosen}" what its chosen option says.
function questionOf(form, text) {
  const boxes = [...form.elements].filter((each) => each.type === "checkbox" && each.checked && each.closest("tbody"));
  const option = [...form.elements].find((each) => each.type === "radio" && each.checked && each.dataset.said);
  return text
    .replace("{chosen}", option ? option.dataset.said : "")
    .replace(/\{count:([\w ]+)\}/, (_, noun) => `${boxes.length} ${noun}${boxes.length === 1 ? "" : "s"}`);
}

function ask(text) {
  const dialog = document.getElementById("confirm");
  if (!dialog) {
    document.addEventListener("DOMContentLoaded", () => ask(text), { once: true }); // it is at the end of the page
    return;
  }
  document.getElementById("confirm-text").textContent = text;
  if (!dialog.open) dialog.showModal();
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  const text = (event.submitter && event.submitter.dataset.confirm) || form.dataset.confirm;
  if (text && asking !== form) {
    event.preventDefault();
    asking = form;
    form.confirmedBy = event.submitter;
    ask(questionOf(form, text));
    return;
  }
  asking = null;
  if (form.method === "post") {
    // a second click sends nothing twice; the button's own name and value have been taken already
    setTimeout(() => form.querySelectorAll("button").forEach((each) => (each.disabled = true)));
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-confirm-no], [data-confirm-yes]");
  if (!button) return;
  document.getElementById("confirm").close();
  if (button.hasAttribute("data-confirm-no")) asking = null;
  else if (asking) asking.requestSubmit(asking.confirmedBy || undefined);
});

document.addEventListener("cancel", (event) => {
  if (event.target.id === "confirm") asking = null;
}, true);
