"use strict";
/* Small tools of the page: elements, numbers, the tip that follows the mouse. */

const byId = (id) => document.getElementById(id);
const finite = (value) => typeof value === "number" && Number.isFinite(value);
const short = (value) => !finite(value) ? "-" : value === 0 ? "0"
  : Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? value.toExponential(2).replace(/\.?0+e/, "e") : String(+value.toPrecision(4));
const clock = (seconds) => seconds < 120 ? `${Math.round(seconds)} s`
  : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
const colourOf = (index) => `var(--c${index % 8})`;

/* Text is always a text node: what a model wrote is never markup. */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") node.style.cssText = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
function draw(tag, attributes = {}, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") node.style.cssText = value;
    else node.setAttribute(name, value);
  }
  if (text !== undefined) node.textContent = text;
  return node;
}
const key = (colour, ...text) =>
  make("span", { class: "key" }, make("i", { style: `background:${colour}` }), ...text);

const tip = make("div", { id: "tip", role: "status" });
document.body.append(tip);
function showTip(event, ...lines) {
  tip.replaceChildren(...lines.map((line) => make("div", {}, line)));
  tip.style.display = "block";
  tip.style.left = Math.max(8, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  const below = event.clientY + 18;
  tip.style.top = (below + tip.offsetHeight < innerHeight ? below : event.clientY - tip.offsetHeight - 10) + "px";
}
const hideTip = () => { tip.style.display = "none"; };

/* Three to six round values between low and high. */
function ticks(low, high) {
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
  return found;
}
