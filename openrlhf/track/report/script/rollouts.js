/* Stored samples, token by token. */

/* `value`: of token t, null where it has none. `floor`: the scale is at least this wide, so that rounding stays pale. */
const VIEWS = {
  mask: { label: "who wrote it", value: (s, t) => s.loss_mask[t] ? 1 : s.action_mask[t] ? 0.3 : null, floor: 1,
    says: "coloured: trained on; pale: sampled, not trained on; grey text: given by prompt or environment" },
  advantage: { label: "advantage", value: (s, t) => of(s.advantages, s, t), floor: 0, signed: true,
    says: "blue: better than the baseline; orange: worse" },
  surprise: { label: "surprise", value: (s, t) => s.action_mask[t] ? -s.logprobs[t] : null, floor: 1,
    says: "minus log-probability, in nats: the stronger, the less likely the sampled token was" },
  mismatch: { label: "trainer against engine", signed: true, floor: 0.01,
    value: (s, t) => finite(of(s.train_logprobs, s, t)) ? s.train_logprobs[t] - s.logprobs[t] : null,
    says: "trainer's minus engine's log-probability of the token, in nats" },
};
const of = (stream, segment, t) => stream && segment.action_mask[t] && finite(stream[t]) ? stream[t] : null;

function paint(span, value, top, signed) {
  const colour = signed && value < 0 ? "var(--minus)" : "var(--plus)";
  const share = Math.min(1, Math.abs(value) / top);
  span.style.background = `color-mix(in srgb, ${colour} ${(58 * share).toFixed(1)}%, transparent)`;
}

function describe(segment, t) {
  const lines = [`token ${t}, id ${segment.token_ids[t]}`];
  if (!segment.action_mask[t]) return [...lines, "given, not sampled"];
  const add = (label, stream) => { if (stream && finite(stream[t])) lines.push(`${label} ${short(stream[t])}`); };
  lines.push(`policy version ${segment.policy_versions[t]}${segment.loss_mask[t] ? "" : ", not trained on"}`);
  add("log-probability", segment.logprobs);
  add("trainer's", segment.train_logprobs);
  add("reference's", segment.ref_logprobs);
  add("advantage", segment.advantages);
  add("value", segment.values);
  return lines;
}

function tokens(segment, view, top) {
  const box = make("div", { class: "tokens" });
  segment.token_ids.forEach((_, t) => {
    const value = view.value(segment, t);
    const span = make("span", { "data-t": t }, segment.pieces[t].replaceAll("\n", "\u21b5\n"));
    if (!segment.action_mask[t]) span.className = "given";
    if (value !== null) paint(span, value, top, view.signed);
    box.append(span);
  });
  box.addEventListener("mousemove", (event) => {
    const t = event.target.dataset.t;
    if (t === undefined) hideTip(); else showTip(event, ...describe(segment, +t));
  });
  box.addEventListener("mouseleave", hideTip);
  return box;
}

/* What the policy saw, in the order of the placeholders in the tokens. `images`: the run's, by name. */
function pictures(segment, images) {
  return make("div", { class: "pictures" }, ...segment.images.map((name, index) => Object.hasOwn(images, name)
    ? make("img", { src: images[name], alt: `image ${index + 1}` })
    : make("span", {}, `image ${index + 1}: its file is gone or broken`)));
}

function scale(view, top, known) {
  if (!known) return make("p", { class: "nothing" }, "This sample has no such values: it was not trained on.");
  if (view === VIEWS.mask) return make("p", { class: "says" }, view.says);
  const ends = view.signed ? [`-${short(top)}`, short(top)] : ["0", short(top)];
  return make("p", { class: "says" }, ends[0], make("i", { class: view.signed ? "scale signed" : "scale" }), ends[1], " ", view.says);
}

function sampleCard(sample, view, images) {
  const facts = [["reward", short(sample.reward)], ["shaped reward", short(sample.shaped_reward)], ["score", short(sample.score)],
    ["status", sample.status], ["label", sample.label], ["truncated", sample.truncated ? "yes" : "no"],
    ["reason", sample.reason], ...Object.entries(sample.extra_logs).map(([name, value]) => [name, short(value)])];
  const values = sample.segments.flatMap((segment) => segment.token_ids.map((_, t) => view.value(segment, t))).filter(finite);
  const top = values.reduce((most, value) => Math.max(most, Math.abs(value)), view.floor) || 1;
  return make("div", { class: "card" },
    make("dl", {}, ...facts.filter(([, value]) => value !== "" && value !== "-" && value !== undefined).map(([name, value]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, String(value))))),
    scale(view, top, values.length > 0),
    ...sample.segments.flatMap((segment, index) => [
      ...(sample.segments.length > 1 ? [make("h4", {}, `segment ${index + 1} of ${sample.segments.length}`)] : []),
      pictures(segment, images), tokens(segment, view, top)]));
}

function rollouts() {
  const stored = runs.filter((run) => run.samples.length);
  if (!stored.length) { byId("rollouts").append(make("p", { class: "nothing" }, "No rollouts were stored.")); return; }
  const choice = (label, options) => make("select", { "aria-label": label },
    ...options.map(([value, text]) => make("option", { value }, text)));
  const run = choice("run", stored.map((each, index) => [index, each.name]));
  const step = make("select", { "aria-label": "step" });
  const view = choice("colour by", Object.entries(VIEWS).map(([name, each]) => [name, each.label]));
  const list = make("div", { class: "card list" }), detail = make("div", { class: "detail" });
  let chosen = 0;
  const samples = () => stored[+run.value].samples.filter((sample) => sample.step === +step.value);
  const verdict = (sample) => sample.status === "ungraded" ? "no verdict" : `reward ${short(sample.reward)}`;
  const show = () => {
    [...list.children].forEach((button, index) => button.setAttribute("aria-pressed", index === chosen));
    const sample = samples()[chosen];
    detail.replaceChildren(...(sample ? [sampleCard(sample, VIEWS[view.value], stored[+run.value].images)] : []));
  };
  const fill = () => {
    chosen = 0;
    list.replaceChildren(...samples().map((sample, index) => make("button", { onclick: () => { chosen = index; show(); } },
      make("span", {}, sample.sample_id), make("small", { class: sample.status }, verdict(sample)))));
    show();
  };
  const steps = () => {
    const all = [...new Set(stored[+run.value].samples.map((sample) => sample.step))];
    step.replaceChildren(...all.map((each) => make("option", { value: each }, `step ${each}`)));
    step.value = all.at(-1);
    fill();
  };
  run.addEventListener("change", steps);
  step.addEventListener("change", fill);
  view.addEventListener("change", show);
  byId("rollout-controls").append(...(stored.length > 1 ? [run] : []), step, make("label", {}, "colour by ", view));
  byId("rollouts").append(make("div", { class: "split" }, list, detail));
  steps();
}
