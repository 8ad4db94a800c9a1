/* The page as a whole. */

const { runs } = JSON.parse(byId("data").textContent);

function summary() {
  const cell = (value, tag = "td") => make(tag, {}, value);
  const evaluations = [...new Set(runs.flatMap((run) => Object.keys(run.metrics)))].filter((name) => /^eval_.*_pass1$/.test(name));
  const change = (run, name) => {
    const line = points(run, name);
    return line.length ? `${short(line[0][1])} \u2192 ${short(line.at(-1)[1])}` : "-";
  };
  const head = ["run", "steps", "time", "reward", ...evaluations];
  byId("summary").append(make("table", {}, make("tr", {}, ...head.map((text) => cell(text, "th"))),
    ...runs.map((run, index) => {
      const seconds = points(run, "timing/step_total").reduce((sum, point) => sum + point[1], 0);
      const steps = run.steps.filter((step) => step > 0).length;
      return make("tr", {}, cell(runs.length > 1 ? key(colourOf(index), run.name) : run.name), cell(String(steps)), cell(clock(seconds)),
        cell(change(run, "rollout/reward_mean")), ...evaluations.map((name) => cell(change(run, name))));
    })));
  for (const run of runs) for (const note of run.notes)
    byId("summary").append(make("p", { class: "note" }, `${run.name}: ${note}`));
}

summary();
curves();
timing();
ledger();
rollouts();
