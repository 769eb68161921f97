// Presses a button without loading the page again, and writes what each button does next.
"use strict";

async function press(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const said = new FormData(form, event.submitter);
  const state = document.getElementById(form.dataset.said ?? "state");
  try {
    const headers = { Accept: "application/json" };
    const answer = await fetch(form.action, { method: "POST", body: said, headers });
    if (!answer.ok) throw new Error(await answer.text() || `HTTP ${answer.status}`);
    const told = await answer.json();
    if (told.said) state.textContent = told.said;
    for (const button of told.buttons ?? []) {
      const found = form.querySelector(`[data-about="${button.about}"]`);
      found.value = button.do;
      found.textContent = button.text;
    }
  } catch (error) {
    state.textContent = `Nothing was changed (${error.message}).`;
  }
}

for (const form of document.querySelectorAll("form.presses")) form.addEventListener("submit", press);
