"use strict";
const { runs } = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#2563eb", "#e8710a", "#15803d", "#b91c8c", "#7c5cff", "#0e9aa7", "#a16207", "#dc2626"];
const PHASES = ["generation", "reward", "make_experience", "ppo_train", "broadcast"];
const FIRST = ["rollout/reward_mean", "rollout/response_length_mean", "rollout/truncated_rate", "train/kl",
  "train/policy_loss", "train/entropy", "train/actor_grad_norm", "train/logprobs_diff", "timing/step_total"];

const byId = (id) => document.getElementById(id);
const finite = (value) => typeof value === "number" && Number.isFinite(value);
const short = (value) => !finite(value) ? "-" : value === 0 ? "0"
  : Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? value.toExponential(2) : String(+value.toPrecision(4));

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
function draw(tag, attributes = {}, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const tip = make("div", { id: "tip", role: "status" });
document.body.append(tip);
function showTip(event, text) {
  tip.textContent = text;
  tip.style.display = "block";
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = event.clientY + 16 + "px";
}
const hideTip = () => { tip.style.display = "none"; };

function points(run, name) {
  return run.rows.filter((row) => finite(row[name])).map((row) => [row.step, row[name]]);
}
function smooth(values, window) {
  return values.map(([step], index) => {
    const near = values.slice(Math.max(0, index - window + 1), index + 1);
    return [step, near.reduce((sum, point) => sum + point[1], 0) / near.length];
  });
}

function chart(name, window) {
  const lines = runs.map((run) => smooth(points(run, name), window));
  const all = lines.flat();
  if (!all.length) return null;
  const W = 320, H = 150, L = 44, B = 18;
  let [low, high] = [Math.min(...all.map((p) => p[1])), Math.max(...all.map((p) => p[1]))];
  if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
  const first = Math.min(...all.map((p) => p[0])), last = Math.max(...all.map((p) => p[0]));
  const x = (step) => L + (W - L - 6) * (last > first ? (step - first) / (last - first) : 0.5);
  const y = (value) => 8 + (H - B - 12) * (1 - (value - low) / (high - low));
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": name });
  for (const part of [0, 0.5, 1]) {
    const value = low + part * (high - low);
    svg.append(draw("line", { class: "axis", x1: L, x2: W - 6, y1: y(value), y2: y(value) }));
    svg.append(draw("text", { x: L - 5, y: y(value) + 3, "text-anchor": "end" }, short(value)));
  }
  svg.append(draw("text", { x: x(first), y: H - 3, "text-anchor": "middle" }, first));
  if (last > first) svg.append(draw("text", { x: x(last), y: H - 3, "text-anchor": "middle" }, last));
  lines.forEach((line, index) => {
    const colour = COLOURS[index % COLOURS.length];
    svg.append(draw("polyline", { fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-linejoin": "round",
      points: line.map(([step, value]) => `${x(step)},${y(value)}`).join(" ") }));
    const few = line.length <= 30;
    for (const [step, value] of line) {
      const dot = draw("circle", { cx: x(step), cy: y(value), r: few ? 2.6 : 5, fill: few ? colour : "transparent" });
      dot.addEventListener("mousemove", (event) => showTip(event, `${runs[index].name}\nstep ${step}: ${short(value)}`));
      dot.addEventListener("mouseleave", hideTip);
      svg.append(dot);
    }
  });
  const ends = lines.filter((line) => line.length).map((line) => short(line.at(-1)[1])).join(", ");
  return make("div", { class: "card" }, make("h3", {}, name, make("span", {}, ends)), svg);
}

function keys(names, colours) {
  return names.map((name, index) => {
    const mark = make("i");
    mark.style.background = colours[index % colours.length];
    return make("span", { class: "key" }, mark, name);
  });
}

function curves() {
  const names = [...new Set(runs.flatMap((run) => run.rows.flatMap(Object.keys)))].filter((name) => name !== "step");
  const evaluations = names.filter((name) => name.startsWith("eval_") && name.includes("_pass"));
  const preferred = [...FIRST.slice(0, 1), ...evaluations, ...FIRST.slice(1)].filter((name) => names.includes(name));
  const rest = names.filter((name) => !preferred.includes(name)).sort();
  const which = make("select", { "aria-label": "metrics" },
    make("option", { value: "main" }, "main metrics"), make("option", { value: "all" }, `all ${names.length} metrics`));
  const window = make("input", { type: "number", min: 1, max: 200, value: 1, "aria-label": "smoothing window in steps" });
  const fill = () => {
    const chosen = which.value === "all" ? [...preferred, ...rest] : preferred;
    byId("curves").replaceChildren(...chosen.map((name) => chart(name, +window.value || 1)).filter(Boolean));
  };
  which.addEventListener("change", fill);
  window.addEventListener("change", fill);
  byId("curve-controls").append(which, make("label", {}, "mean of the last ", window, " steps"),
    ...(runs.length > 1 ? keys(runs.map((run) => run.name), COLOURS) : []));
  fill();
}

function timing() {
  for (const run of runs) {
    const rows = run.rows.filter((row) => finite(row["timing/step_total"]));
    if (!rows.length) continue;
    // Rewards are scored while others generate, so they are no slice of the step of their own.
    const phases = PHASES.filter((phase) => phase !== "reward" && rows.some((row) => row[`timing/${phase}`] > 0));
    const top = Math.max(...rows.map((row) => row["timing/step_total"]));
    const W = 1100, H = 130, width = (W - 50) / rows.length;
    const svg = draw("svg", { viewBox: `0 0 ${W} ${H + 18}`, role: "img", "aria-label": `seconds per step of ${run.name}` });
    for (const part of [0, 0.5, 1]) {
      const y = 4 + (H - 4) * (1 - part);
      svg.append(draw("line", { class: "axis", x1: 44, x2: W, y1: y, y2: y }));
      svg.append(draw("text", { x: 40, y: y + 3, "text-anchor": "end" }, short(top * part)));
    }
    rows.forEach((row, index) => {
      let base = 0;
      const slices = phases.map((phase) => row[`timing/${phase}`] || 0);
      const other = Math.max(0, row["timing/step_total"] - slices.reduce((a, b) => a + b, 0));
      [...slices, other].forEach((seconds, phase) => {
        const height = (H - 4) * seconds / top;
        const bar = draw("rect", { x: 46 + index * width, y: H - base - height, width: Math.max(1, width - 2), height,
          fill: phase < phases.length ? COLOURS[phase] : "#9aa3af" });
        const name = phases[phase] || "other";
        bar.addEventListener("mousemove", (event) => showTip(event, `step ${row.step}, ${name}: ${seconds.toFixed(1)} s`));
        bar.addEventListener("mouseleave", hideTip);
        svg.append(bar);
        base += height;
      });
    });
    byId("timing").append(make("div", { class: "card" }, make("h3", {}, run.name, make("span", {}, "seconds")),
      make("div", { class: "controls" }, ...keys([...phases, "other"], [...COLOURS.slice(0, phases.length), "#9aa3af"])), svg));
  }
}

function ledger() {
  const shown = runs.filter((run) => run.rows.some((row) => Object.keys(row).some((name) => name.startsWith("ledger/"))));
  if (!shown.length) { byId("ledger-section").remove(); return; }
  for (const run of shown) {
    const row = run.rows.findLast((each) => Object.keys(each).some((name) => name.startsWith("ledger/")));
    const states = Object.entries(row).filter(([name, value]) => name.startsWith("ledger/") && value > 0);
    byId("ledger").append(make("div", { class: "card" }, make("h3", {}, run.name), make("dl", {}, ...states.map(
      ([name, value]) => make("div", {}, make("dt", {}, name.slice(7).replaceAll("_", " ")), make("dd", {}, String(value)))))));
  }
}

const VIEWS = {
  mask: { label: "who wrote it", value: (s, t) => s.loss_mask[t] ? 1 : s.action_mask[t] ? 0.35 : null, signed: false,
    says: "coloured: trained on; pale: sampled, not trained on; grey: given by prompt or environment" },
  advantage: { label: "advantage", value: (s, t) => s.advantages && s.action_mask[t] ? s.advantages[t] : null, signed: true,
    says: "green: above the baseline; red: below" },
  surprise: { label: "surprise", value: (s, t) => s.action_mask[t] ? -s.logprobs[t] : null, signed: false,
    says: "the darker, the less likely the sampled token was" },
  mismatch: { label: "trainer against engine", signed: true, says: "difference of the two log-probabilities of a token",
    value: (s, t) => s.train_logprobs && s.action_mask[t] ? s.train_logprobs[t] - s.logprobs[t] : null },
};

function tokens(segment, view) {
  const values = segment.token_ids.map((_, t) => view.value(segment, t));
  const top = Math.max(1e-9, ...values.map((value) => Math.abs(value ?? 0)));
  return make("div", { class: "tokens" }, ...segment.token_ids.map((id, t) => {
    const span = make("span", {}, segment.pieces[t]);
    if (values[t] === null) span.className = "given";
    else {
      const hue = view.signed ? (values[t] < 0 ? "220,38,38" : "21,128,61") : "37,99,235";
      span.style.background = `rgba(${hue},${(0.45 * Math.abs(values[t]) / top).toFixed(3)})`;
    }
    const lines = [`token ${t}, id ${id}`];
    if (segment.action_mask[t]) {
      lines.push(`logprob ${short(segment.logprobs[t])}`, `policy version ${segment.policy_versions[t]}`);
      if (segment.advantages) lines.push(`advantage ${short(segment.advantages[t])}`);
      if (segment.train_logprobs) lines.push(`trainer's logprob ${short(segment.train_logprobs[t])}`);
    } else lines.push("given, not sampled");
    span.addEventListener("mousemove", (event) => showTip(event, lines.join("\n")));
    span.addEventListener("mouseleave", hideTip);
    return span;
  }));
}

function sampleCard(sample, view) {
  const facts = { reward: short(sample.reward), score: short(sample.score), status: sample.status, label: sample.label,
    truncated: sample.truncated ? "yes" : "no", sample: sample.sample_id, ...(sample.reason ? { reason: sample.reason } : {}),
    ...Object.fromEntries(Object.entries(sample.extra_logs).map(([name, value]) => [name, short(value)])) };
  return make("div", { class: "card" },
    make("dl", {}, ...Object.entries(facts).map(([name, value]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, String(value))))),
    ...sample.segments.map((segment) => tokens(segment, view)));
}

function rollouts() {
  const stored = runs.filter((run) => run.samples.length);
  if (!stored.length) { byId("rollouts").append("No rollouts were stored."); return; }
  const choice = (label, options) => make("select", { "aria-label": label },
    ...options.map(([value, text]) => make("option", { value }, text)));
  const run = choice("run", stored.map((each, index) => [index, each.name]));
  const step = make("select", { "aria-label": "step" });
  const view = choice("colour by", Object.entries(VIEWS).map(([name, each]) => [name, each.label]));
  const says = make("span");
  const list = make("div", { class: "card list" }), detail = make("div");
  let chosen = 0;
  const samples = () => stored[+run.value].samples.filter((sample) => sample.step === +step.value);
  const fill = () => {
    says.textContent = VIEWS[view.value].says;
    list.replaceChildren(...samples().map((sample, index) => make("button",
      { "aria-pressed": index === chosen, onclick: () => { chosen = index; fill(); } },
      sample.sample_id, make("small", {}, sample.status === "ungraded" ? "no verdict" : `reward ${short(sample.reward)}`))));
    const sample = samples()[chosen];
    detail.replaceChildren(...(sample ? [sampleCard(sample, VIEWS[view.value])] : []));
  };
  const steps = () => {
    const all = [...new Set(stored[+run.value].samples.map((sample) => sample.step))];
    step.replaceChildren(...all.map((each) => make("option", { value: each }, `step ${each}`)));
    step.value = all.at(-1);
    chosen = 0;
    fill();
  };
  run.addEventListener("change", steps);
  step.addEventListener("change", () => { chosen = 0; fill(); });
  view.addEventListener("change", fill);
  byId("rollout-controls").append(...(stored.length > 1 ? [run] : []), step, make("label", {}, "colour by ", view), says);
  byId("rollouts").append(make("div", { class: "split" }, list, detail));
  steps();
}

byId("summary").textContent = runs.map((run) => {
  const rewards = points(run, "rollout/reward_mean");
  const seconds = run.rows.reduce((sum, row) => sum + (finite(row["timing/step_total"]) ? row["timing/step_total"] : 0), 0);
  const change = rewards.length ? `reward ${short(rewards[0][1])} to ${short(rewards.at(-1)[1])}` : "no finished step";
  return `${run.name}: ${rewards.length} steps, ${Math.round(seconds)} s, ${change}`;
}).join(" | ");
curves();
timing();
ledger();
rollouts();
