/* Metrics over steps, the runs over each other. */

const MAIN = ["rollout/reward_mean", "rollout/response_length_mean", "rollout/truncated_rate",
  "rollout/constant_group_rate", "train/kl", "train/policy_loss", "train/entropy", "train/actor_grad_norm",
  "train/logprobs_diff", "async/staleness_mean", "timing/step_total"];
const MOST_POINTS = 500;  // of a line: more cannot be told apart

/* [step, value] of the steps that have a number. */
function points(run, name) {
  const column = run.metrics[name] || [];
  return run.steps.map((step, index) => [step, column[index]]).filter(([step, value]) => finite(step) && finite(value));
}

function smooth(values, window) {
  if (window <= 1) return values;
  let sum = 0;
  return values.map(([step, value], index) => {
    sum += value - (index >= window ? values[index - window][1] : 0);
    return [step, sum / Math.min(window, index + 1)];
  });
}

/* Of many points the mean of each stretch, and its lowest and highest, so that no peak is lost. */
function thin(line) {
  if (line.length <= MOST_POINTS) return { means: line, ends: [] };
  const stretch = Math.ceil(line.length / (MOST_POINTS / 2)), means = [], ends = [];
  for (let start = 0; start < line.length; start += stretch) {
    const part = line.slice(start, start + stretch);
    const low = part.reduce((a, b) => b[1] < a[1] ? b : a), high = part.reduce((a, b) => b[1] > a[1] ? b : a);
    ends.push(...(low[0] < high[0] ? [low, high] : [high, low]));
    means.push([part[part.length >> 1][0], part.reduce((sum, point) => sum + point[1], 0) / part.length]);
  }
  return { means, ends };
}

function nearest(line, step) {
  let low = 0, high = line.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (line[middle][0] < step) low = middle + 1; else high = middle;
  }
  return low > 0 && step - line[low - 1][0] < line[low][0] - step ? line[low - 1] : line[low];
}

function bounds(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low === high) { low -= Math.abs(low) * 0.1 || 0.5; high += Math.abs(high) * 0.1 || 0.5; }
  return [low, high];
}

function chart(name, window) {
  const lines = runs.map((run) => smooth(points(run, name), window));
  const all = lines.flat();
  if (!all.length) return null;
  const W = 340, H = 160, L = 48, R = 16, T = 8, B = 20;
  const [low, high] = bounds(all.map((point) => point[1]));
  const first = all.reduce((a, p) => Math.min(a, p[0]), Infinity), last = all.reduce((a, p) => Math.max(a, p[0]), -Infinity);
  const x = (step) => L + (W - L - R) * (last > first ? (step - first) / (last - first) : 0.5);
  const y = (value) => T + (H - B - T) * (1 - (value - low) / (high - low));
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": name });
  for (const value of ticks(low, high)) {
    svg.append(draw("line", { class: "axis", x1: L, x2: W - R, y1: y(value), y2: y(value) }));
    svg.append(draw("text", { x: L - 6, y: y(value) + 3, "text-anchor": "end" }, short(value)));
  }
  for (const step of last > first ? ticks(first, last).filter(Number.isInteger) : [first])
    svg.append(draw("text", { x: x(step), y: H - 4, "text-anchor": "middle" }, step));
  const cursor = draw("line", { class: "cursor", y1: T, y2: H - B, visibility: "hidden" });
  svg.append(cursor);
  lines.forEach((line, index) => {
    const { means, ends } = thin(line);
    const path = (some) => some.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    if (ends.length) svg.append(draw("polyline", { class: "ends", style: `stroke:${colourOf(index)}`, points: path(ends) }));
    svg.append(draw("polyline", { class: "curve", style: `stroke:${colourOf(index)}`, points: path(means) }));
    if (line.length === 1 || (line.length <= 20 && runs.length <= 3))
      for (const [step, value] of line)
        svg.append(draw("circle", { cx: x(step), cy: y(value), r: 2.4, style: `fill:${colourOf(index)}` }));
  });
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect();
    const step = first + ((event.clientX - box.left) / box.width * W - L) / (W - L - R) * (last - first);
    const found = lines.map((line) => line.length ? nearest(line, step) : null);
    const at = found.find(Boolean)[0];
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    cursor.setAttribute("visibility", "visible");
    showTip(event, name, ...found.flatMap((point, index) => point
      ? [key(colourOf(index), `${runs.length > 1 ? runs[index].name + ", " : ""}step ${point[0]}: ${short(point[1])}`)] : []));
  });
  svg.addEventListener("mouseleave", () => { cursor.setAttribute("visibility", "hidden"); hideTip(); });
  const ends = lines.flatMap((line, index) => line.length
    ? [make("b", { style: runs.length > 1 ? `color:${colourOf(index)}` : "" }, short(line.at(-1)[1]))] : []);
  return make("div", { class: "card chart" }, make("h3", {}, make("span", { class: "name" }, name), make("span", {}, ...ends)), svg);
}

function curves() {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.metrics)))];
  const evaluations = names.filter((name) => name.startsWith("eval_") && name.includes("_pass"));
  const main = [MAIN[0], ...evaluations, ...MAIN.slice(1)].filter((name) => names.includes(name));
  const sorted = [...main, ...names.filter((name) => !main.includes(name)).sort()];
  const which = make("select", { "aria-label": "metrics" },
    make("option", { value: "main" }, "main metrics"), make("option", { value: "all" }, `all ${names.length} metrics`));
  const search = make("input", { type: "search", placeholder: "find a metric", "aria-label": "find a metric" });
  const window = make("input", { type: "number", min: 1, max: 1000, value: 1, "aria-label": "smoothing window in steps" });
  const fill = () => {
    const wanted = search.value.trim().toLowerCase();
    const chosen = wanted ? sorted.filter((name) => name.toLowerCase().includes(wanted)) : which.value === "all" ? sorted : main;
    const charts = chosen.map((name) => chart(name, Math.max(1, Math.round(+window.value) || 1))).filter(Boolean);
    byId("curves").replaceChildren(...(charts.length ? charts : [make("p", { class: "nothing" }, "No metric to show.")]));
  };
  which.addEventListener("change", fill);
  for (const input of [search, window]) input.addEventListener("input", fill);
  byId("curve-controls").append(which, search, make("label", {}, "mean of the last ", window, " steps"),
    ...(runs.length > 1 ? runs.map((run, index) => key(colourOf(index), run.name)) : []));
  fill();
}
