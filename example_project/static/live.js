// Asks for the numbers twice a second and writes those that changed into the tables and charts.
"use strict";

const state = document.getElementById("state");
const contents = new Map();
const grouped = new Intl.NumberFormat("en", { useGrouping: true });

function rowOf(body, row) {
  const found = document.getElementById(row.id);
  if (found) return found;
  const made = body.insertRow();
  made.id = row.id;
  const name = document.createElement("th");
  name.scope = "row";
  name.textContent = row.name;
  made.append(name);
  row.numbers.forEach(() => made.insertCell());
  return made;
}

function show(cell, number) {
  const text = grouped.format(number);
  if (cell.textContent === text) return;
  cell.textContent = text;
  cell.classList.add("changed");
  setTimeout(() => cell.classList.remove("changed"), 400);
}

function replace(id, content) {
  const place = document.getElementById(id);
  if (!place || contents.get(id) === content) return;
  contents.set(id, content);
  const made = place.cloneNode();
  made.innerHTML = content;
  // A button that is as it was keeps the focus.
  if (made.innerHTML.trim() !== place.innerHTML.trim()) place.innerHTML = content;
}

function say(text) {
  // Unchanged text is left alone, so that a screen reader does not repeat it.
  if (state.textContent !== text) state.textContent = text;
}

async function update() {
  try {
    const answer = await fetch(state.dataset.url, { cache: "no-store" });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const { tables, fragments } = await answer.json();
    for (const [id, content] of Object.entries(fragments)) replace(id, content);
    for (const [name, rows] of Object.entries(tables)) {
      const body = document.getElementById(name);
      // The first page has a part of the numbers.
      if (!body) continue;
      for (const row of rows) {
        const line = rowOf(body, row);
        row.numbers.forEach((number, at) => show(line.cells[at + 1], number));
      }
    }
    say("Live: read twice a second.");
  } catch (error) {
    say(`No connection to the server (${error.message}). These numbers are old.`);
  }
  setTimeout(update, 500);
}

update();
