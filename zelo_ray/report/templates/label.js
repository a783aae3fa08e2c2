"use strict";
// An answer is shown as kept only when the server has said so; until then it stands in this tab's
// own storage, and is sent again, even after the page was loaded anew.
const at = (id) => document.getElementById(id);
const about = JSON.parse(at("about").textContent);
const buttons = [...document.querySelectorAll("#grades [data-key]")];
const texts = [...document.querySelectorAll(".document")];
const SOON = [500, 1000, 2000, 4000];
let person = sessionStorage.getItem("person") || "";
let shown = null, previous = null, busy = false, lost = false;

const pause = (time) => new Promise((done) => setTimeout(done, time));
const valueOf = (button) => (button.dataset.value === "" ? null : Number(button.dataset.value));
function said(value) {
  const { key, name } = about.choices.find((choice) => choice.value === value);
  return value === null ? "cannot say" : name ? `${key} (${name})` : key;
}

function notice(text) {
  at("notice").textContent = text;
  at("notice").hidden = !text;
}

async function once(path, asked) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Token": about.token },
    body: JSON.stringify({ person, ...asked }),
    signal: AbortSignal.timeout(20000),
  });
  if (answer.status === 403) { // the server was started anew: so is the page, with what waits here
    location.reload();
    return new Promise(() => {});
  }
  const told = await answer.json();
  if (answer.ok) return told;
  throw Object.assign(new Error(told.error || `error ${answer.status}`), { final: answer.status < 500, told: true });
}

// Ask until there is a reply. What changes something is kept in the tab's storage meanwhile.
async function ask(path, asked, changes) {
  if (changes) sessionStorage.setItem("waiting", JSON.stringify({ path, asked }));
  for (let tries = 0; ; tries++) {
    try {
      const told = await once(path, asked);
      sessionStorage.removeItem("waiting");
      lost = false;
      notice("");
      return told;
    } catch (error) {
      if (error.final) {
        sessionStorage.removeItem("waiting");
        throw error;
      }
      lost = true;
      const kept = changes ? "Your last answer is not saved yet. It is kept in this tab, so leave the tab open. " : "";
      const why = error.told ? `The server says: ${error.message}.` : "The server does not answer.";
      const again = tries < 3 ? "Trying again …" : `If it has ended, start it again: ${about.words.again}`;
      notice(`${kept}${why} ${again}`);
      await pause(SOON[Math.min(tries, SOON.length - 1)]);
    }
  }
}

function tell(progress) {
  const left = progress.of - progress.done;
  at("progress").textContent = `${progress.done} of ${progress.of}, ${progress.yours} by you; ` +
    (left ? `${left} to go` : "all judged");
  at("bar").max = progress.of;
  at("bar").value = progress.done;
}

function show(told) {
  const progress = told.progress;
  shown = told.item;
  previous = told.previous;
  tell(progress);
  if (!at("who").hidden) at("rubric").open = false; // it was there to read before the first document
  at("who").hidden = true;
  at("other").textContent = `${person}: not you?`;
  at("other").hidden = false;
  at("judge").hidden = !shown;
  at("done").hidden = Boolean(shown);
  at("undo").disabled = at("back").hidden = !previous;
  const before = "before" in told ? told.before : undefined;
  for (const button of buttons) button.setAttribute("aria-pressed", String(before === valueOf(button)));
  if (!shown) return end(progress);
  if (before !== undefined) notice(`Taken back. You had said: ${said(before)}.`);
  at("query").textContent = shown.query;
  at("note").value = told.note || "";
  texts.forEach((element, place) => {
    element.textContent = shown.texts[place];
    element.scrollTop = 0;
  });
  texts[0].focus({ preventScroll: true });
}

function end(progress) {
  const left = progress.of - progress.done;
  const others = `${left} ${about.unit}${left === 1 ? " is" : "s are"} open with others`;
  at("outcome").textContent = left ? "Nothing is left for you just now" : `All ${about.unit}s are judged`;
  const second = progress.second === 1 ? `1 ${about.unit} wants` : `${progress.second} ${about.unit}s want`;
  at("after").textContent = left
    ? `${others}. This page looks again by itself.`
    : `${progress.yours} by you. Thank you. ` +
      (progress.second ? `${second} a second person, if one comes: with a name of their own. ` : "") +
      "End the server with Ctrl-C. Then comes:";
  at("command").textContent = about.words.next;
  at("command").hidden = Boolean(left);
  at("done").focus();
}

async function doing(work) {
  if (busy) return;
  busy = true;
  try {
    await work();
  } catch (error) {
    notice(error.message);
  } finally {
    busy = false;
  }
}

const give = (value) => doing(async () => {
  if (shown) show(await ask("/answer", { key: shown.key, value, note: at("note").value }, true));
});
const undo = () => doing(async () => {
  if (previous) show(await ask("/undo", { key: previous }, true));
});

const begin = () => doing(async () => {
  const waiting = JSON.parse(sessionStorage.getItem("waiting") || "null");
  if (waiting) {
    try {
      return show(await ask(waiting.path, waiting.asked, true));
    } catch (error) { // such as an answer that the server does not take
      notice(error.message);
    }
  }
  show(await ask("/take", {}, false));
});

at("who").addEventListener("submit", (event) => {
  event.preventDefault();
  person = at("name").value.trim();
  if (!person) return;
  sessionStorage.setItem("person", person);
  begin();
});
for (const button of buttons) button.addEventListener("click", () => give(valueOf(button)));
at("other").addEventListener("click", () => doing(async () => {
  sessionStorage.removeItem("person");
  location.reload();
}));
at("undo").addEventListener("click", undo);
at("back").addEventListener("click", undo);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || !at("who").hidden) return;
  const key = event.key.toLowerCase();
  if (event.target === at("note")) { // what is written there is no answer
    if (key === "enter" || key === "escape") texts[0].focus({ preventScroll: true });
    return;
  }
  const button = buttons.find((each) => each.dataset.key === key);
  if (key === "r" && shown) {
    event.preventDefault();
    at("note").focus();
  } else if (key === "z" || key === "backspace") {
    event.preventDefault();
    undo();
  } else if (button && shown) {
    event.preventDefault();
    give(valueOf(button));
  }
});

// Others go on meanwhile; and a server that has ended is told before the next answer is given.
setInterval(() => {
  if (busy || !person || !at("who").hidden) return;
  if (!shown && !at("done").hidden && at("command").hidden) {
    begin();
    return;
  }
  once("/progress", {}).then(
    (told) => {
      if (lost) notice("");
      lost = false;
      if (!busy) tell(told.progress);
    },
    () => {
      lost = true;
      if (!busy) notice(`The server does not answer. What you have answered is saved. If it has ended, start it again: ${about.words.again}`);
    },
  );
}, 5000);

if (person) {
  at("name").value = person;
  begin();
} else {
  at("name").focus();
}
