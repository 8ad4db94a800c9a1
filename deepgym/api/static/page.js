"use strict";

// Whatever comes from the server is shown as text, never as markup.
const byId = (id) => document.getElementById(id);
let environments = [];
let chosen = null;
let running = null; // the request under way; choosing another environment gives it up

function element(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function listed() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const about = (env) => [env.name, env.title, env.domain, env.difficulty, env.kind, ...env.tags].join(" ").toLowerCase();
  return environments.filter((env) => words.every((word) => about(env).includes(word)));
}

function showList() {
  const found = listed();
  byId("environments").replaceChildren(...found.map((env) => {
    const item = document.createElement("li");
    const button = element("button", env.title + " ");
    button.append(element("small", env.difficulty));
    button.dataset.name = env.name;
    if (chosen === env) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => choose(env));
    item.append(button);
    return item;
  }));
  byId("none").hidden = found.length > 0;
}

function choose(env) {
  if (env !== chosen) {
    if (running) running.abort();
    byId("verdict").hidden = true;
    byId("answer").value = "";
  }
  chosen = env;
  history.replaceState(null, "", "#" + encodeURIComponent(env.name));
  byId("title").textContent = env.title;
  byId("facts").textContent = [env.name, env.difficulty, env.domain, env.kind, env.language].join(" · ");
  byId("text").textContent = env.task;
  byId("task").hidden = false;
  byId("choose").hidden = true;
  showList();
}

function say(summary, className, message) {
  byId("summary").textContent = summary;
  byId("summary").className = className;
  byId("message").textContent = message;
  byId("usage").textContent = "";
  byId("cases").hidden = true;
  byId("verdict").hidden = false;
}

function showVerdict(verdict) {
  if (!verdict.has_verdict) {
    say("No verdict", "unknown", `The answer could not be graded (${verdict.error_type}). Try again.`);
    return;
  }
  const failure = [verdict.error_type, verdict.error_message].filter(Boolean).join(": ");
  say(`${verdict.passed ? "Passed" : "Failed"}, score ${verdict.score.toFixed(3)}`,
    verdict.passed ? "passed" : "failed", failure);
  const usage = [`${verdict.wall_ms.toFixed(0)} ms`, `${verdict.cpu_ms.toFixed(0)} ms of CPU`,
    `${(verdict.peak_memory_bytes / 1048576).toFixed(1)} MiB at most`, ...verdict.notes];
  byId("usage").textContent = usage.join(" · ");
  byId("cases").tBodies[0].replaceChildren(...verdict.cases.map(caseRow));
  byId("cases").hidden = verdict.cases.length === 0;
}

function caseRow(one) {
  const row = document.createElement("tr");
  row.append(
    element("td", one.name, "name"),
    element("td", one.passed ? "passed" : "failed", one.passed ? "passed" : "failed"),
    element("td", one.score.toFixed(3)),
    element("td", one.cpu_ms.toFixed(0)),
    element("td", [one.error_type, one.detail].filter(Boolean).join(": "), "detail"),
  );
  return row;
}

async function run() {
  if (!chosen || running) return;
  const own = running = new AbortController();
  byId("run").disabled = true;
  say("Running…", "", "");
  try {
    const response = await fetch("api/run", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ environment: chosen.name, answer: byId("answer").value }),
      signal: own.signal,
    });
    const body = await response.json();
    if (response.ok) showVerdict(body);
    else say("Not accepted", "unknown", typeof body.detail === "string" ? body.detail : body.detail[0].msg);
  } catch (error) {
    if (!own.signal.aborted) say("No answer from the server", "unknown", String(error.message));
  } finally {
    running = null;
    byId("run").disabled = false;
  }
}

async function start() {
  byId("filter").addEventListener("input", showList);
  byId("run").addEventListener("click", run);
  byId("answer").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });
  try {
    const response = await fetch("api/environments");
    if (!response.ok) throw new Error(`status ${response.status}`);
    environments = await response.json();
  } catch (error) {
    byId("choose").textContent = `The environments could not be loaded: ${error.message}`;
    return;
  }
  showList();
  const named = environments.find((env) => env.name === decodeURIComponent(location.hash.slice(1)));
  if (named) choose(named);
}

start();
