/* Stacked bars over steps: seconds by phase, prompts by state. Many steps are put together, as means. */

const MOST_BARS = 160;

/* `parts`: [{ name, colour, value: (index) => number }]. `unit` follows numbers in the tip. */
function stack(steps, parts, unit, label) {
  const size = Math.ceil(steps.length / MOST_BARS), bars = [];
  for (let start = 0; start < steps.length; start += size) {
    const indices = steps.map((_, index) => index).slice(start, start + size);
    const values = parts.map((part) => indices.reduce((sum, index) => sum + (part.value(index) || 0), 0) / indices.length);
    bars.push({ from: steps[start], to: steps[start + indices.length - 1], values });
  }
  const top = bars.reduce((most, bar) => Math.max(most, bar.values.reduce((a, b) => a + b, 0)), 0) || 1;
  const W = 1100, H = 150, L = 50, T = 6, width = (W - L) / Math.max(bars.length, 12);
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H + 18}`, role: "img", "aria-label": label });
  const y = (value) => T + (H - T) * (1 - value / top);
  for (const value of ticks(0, top)) {
    svg.append(draw("line", { class: "axis", x1: L, x2: W, y1: y(value), y2: y(value) }));
    svg.append(draw("text", { x: L - 6, y: y(value) + 3, "text-anchor": "end" }, short(value)));
  }
  const every = Math.ceil(bars.length / 12);
  bars.forEach((bar, index) => {
    const left = L + index * width, group = draw("g");
    let base = 0;
    parts.forEach((part, number) => {
      const height = (H - T) * bar.values[number] / top;
      if (height > 0) group.append(draw("rect", { x: left + width * 0.06, width: Math.max(0.8, width * 0.88), y: y(base) - height,
        height, style: `fill:${part.colour}` }));
      base += bar.values[number];
    });
    const name = bar.from === bar.to ? `step ${bar.from}` : `steps ${bar.from} to ${bar.to}, mean`;
    group.addEventListener("mousemove", (event) => showTip(event, name, ...parts.map((part, number) => [part, bar.values[number]])
      .filter(([, value]) => value > 0).map(([part, value]) => key(part.colour, `${part.name}: ${short(value)}${unit}`))));
    group.addEventListener("mouseleave", hideTip);
    svg.append(group);
    if (index % every === 0) svg.append(draw("text", { x: left + width / 2, y: H + 14, "text-anchor": "middle" }, bar.from));
  });
  return svg;
}

const PHASES = ["generation", "waiting for rollouts", "make_experience", "critic_train", "ppo_train", "broadcast"];

/* Rewards are scored while others generate, so they are no slice of the step of their own. */
function phaseColumns(run) {
  const columns = {};
  for (const [name, values] of Object.entries(run.metrics))
    if (name.startsWith("timing/") && name !== "timing/step_total" && name !== "timing/reward") columns[name.slice(7)] = values;
  if (run.metrics["async/trainer_idle_seconds"]) columns["waiting for rollouts"] = run.metrics["async/trainer_idle_seconds"];
  return columns;
}

function timing() {
  const shown = runs.filter((run) => (run.metrics["timing/step_total"] || []).some(finite));
  if (!shown.length) { byId("timing").append(make("p", { class: "nothing" }, "No step has been timed.")); return; }
  for (const run of shown) {
    const totals = run.metrics["timing/step_total"], columns = phaseColumns(run);
    const timed = run.steps.map((_, index) => index).filter((index) => finite(totals[index]));
    const used = (name) => timed.some((index) => columns[name][index] > 0);
    const known = PHASES.filter((name) => name in columns);
    const phases = [...known, ...Object.keys(columns).filter((name) => !known.includes(name))].filter(used);
    const at = (name, place) => columns[name][timed[place]] || 0;
    const parts = phases.map((name, index) => ({ name, colour: colourOf(index), value: (place) => at(name, place) }));
    parts.push({ name: "other", colour: "var(--grey)",
      value: (place) => Math.max(0, totals[timed[place]] - phases.reduce((sum, name) => sum + at(name, place), 0)) });
    const sums = parts.map((part) => timed.reduce((sum, _, place) => sum + part.value(place), 0));
    const whole = sums.reduce((a, b) => a + b, 0) || 1;
    byId("timing").append(make("div", { class: "card" },
      make("h3", {}, make("span", { class: "name" }, run.name), make("span", {}, "seconds per step")),
      make("div", { class: "controls" },
        ...parts.map((part, index) => key(part.colour, `${part.name} ${Math.round(100 * sums[index] / whole)}%`))),
      stack(timed.map((index) => run.steps[index]), parts, " s", `seconds per step of ${run.name}`)));
  }
}

const STATES = { trained: 2, filtered: 1, stale: 6, failed: 7, buffered: 5, in_flight: 0, waiting: 4 };  // and its colour

function ledger() {
  const names = (run) => Object.keys(run.metrics).filter((name) => name.startsWith("ledger/") && name !== "ledger/drawn_total");
  const shown = runs.filter((run) => names(run).length);
  if (!shown.length) { byId("ledger-section").remove(); return; }
  for (const run of shown) {
    const kept = run.steps.map((_, index) => index).filter((index) => names(run).some((name) => finite(run.metrics[name][index])));
    const order = [...Object.keys(STATES).map((state) => `ledger/${state}`).filter((name) => names(run).includes(name)),
      ...names(run).filter((name) => !(name.slice(7) in STATES))];
    const parts = order.map((name) => ({ name: name.slice(7).replaceAll("_", " "),
      colour: name.slice(7) in STATES ? colourOf(STATES[name.slice(7)]) : "var(--grey)",
      value: (place) => run.metrics[name][kept[place]] }));
    const last = kept.length - 1;
    byId("ledger").append(make("div", { class: "card" },
      make("h3", {}, make("span", { class: "name" }, run.name), make("span", {}, "prompts drawn so far, by what became of them")),
      make("div", { class: "controls" }, ...parts.map((part) => key(part.colour, `${part.name} ${short(part.value(last))}`))),
      stack(kept.map((index) => run.steps[index]), parts, "", `prompts of ${run.name}`)));
  }
}
