// Counts a view when the page is seen, and a like, or one less, when the button is pressed.
// Without this script the button sends its form.
"use strict";

const article = document.querySelector("article[data-view]");
const views = document.getElementById("views");
const likes = document.getElementById("likes");
const form = document.getElementById("like");
const button = form.querySelector("button");
const said = document.getElementById("said");
const token = form.elements.csrfmiddlewaretoken.value;
function send(url, fields = {}) {
  // It arrives also if the page is left meanwhile.
  const headers = { "X-CSRFToken": token, Accept: "application/json" };
  return fetch(url, { method: "POST", keepalive: true, headers, body: new URLSearchParams(fields) });
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
    const answer = await send(form.action, { like: button.value });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const told = await answer.json();
    show(likes, told.value);
    button.value = told.liked ? "no" : "yes";
    button.textContent = told.liked ? "Take back" : "Like";
    say(told.liked ? `You like this: ${likes.textContent}.` : "You have taken your like back.");
  } catch {
    say("The server did not answer as it should. Press again: it counts once.", { refused: true });
  }
  button.removeAttribute("aria-busy");
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!button.hasAttribute("aria-busy")) like();
});
whenSeen(countView);
