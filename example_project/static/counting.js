// Counts a view when the page is seen, and, over the API, a like when the button is pressed.
// Without this script the button sends its form.
"use strict";

const article = document.querySelector("article[data-view]");
const views = document.getElementById("views");
const likes = document.getElementById("likes");
const form = document.getElementById("like");
const button = form.querySelector("button");
const said = document.getElementById("said");
const token = form.elements.csrfmiddlewaretoken.value;
// One like of this page has one key, however often it has to be sent.
const once = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
  byte.toString(16).padStart(2, "0")
).join("");

function send(url, headers = {}) {
  // It arrives also if the page is left meanwhile. Who is logged in needs the token.
  return fetch(url, { method: "POST", keepalive: true, headers: { "X-CSRFToken": token, ...headers } });
}

function show(place, number) {
  if (number === null) return;
  place.textContent = `${number} ${number === 1 ? place.dataset.one : place.dataset.many}`;
}

function say(text, { refused = false } = {}) {
  said.textContent = text;
  said.classList.toggle("refused", refused);
}

async function countView() {
  try {
    const answer = await send(article.dataset.view);
    if (answer.ok) show(views, (await answer.json()).value);
  } catch {
    // A view that was not counted is nothing that a reader can do something about.
  }
}

function whenSeen(act) {
  if (document.visibilityState === "visible") {
    act();
  } else {
    // Opened in the background, or ahead of time.
    document.addEventListener("visibilitychange", () => whenSeen(act), { once: true });
  }
}

async function like() {
  button.setAttribute("aria-busy", "true");
  try {
    const answer = await send(form.dataset.api, { "Idempotency-Key": once });
    const told = await answer.json();
    if (answer.ok) {
      show(likes, told.value);
      button.setAttribute("aria-pressed", "true");
      button.setAttribute("aria-disabled", "true");
      say(`You like this: ${likes.textContent}.`);
    } else if (answer.status === 504) {
      say("Nobody knows whether your like arrived. Press again: it counts once.", { refused: true });
    } else {
      say(`Your like was not counted. ${told.detail}`, { refused: true });
    }
  } catch {
    say("The server did not answer. Press again: your like counts once.", { refused: true });
  }
  button.removeAttribute("aria-busy");
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!button.hasAttribute("aria-busy") && !button.hasAttribute("aria-disabled")) like();
});
button.setAttribute("aria-pressed", "false");
whenSeen(countView);
