// Presses a button without loading the page again, and writes what each button does next.
"use strict";

document.getElementById("presses").addEventListener("submit", async event => {
  event.preventDefault();
  const form = event.currentTarget;
  const said = new FormData(form, event.submitter);
  try {
    const headers = { Accept: "application/json" };
    const answer = await fetch(form.action, { method: "POST", body: said, headers });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    for (const button of (await answer.json()).buttons) {
      const found = form.querySelector(`[data-about="${button.about}"]`);
      found.value = button.do;
      found.textContent = button.text;
    }
  } catch (error) {
    document.getElementById("state").textContent = `Nothing was changed (${error.message}).`;
  }
});
