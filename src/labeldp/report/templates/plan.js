/* The plan's controls, table and chart. All numbers come from plan_numbers.js; all text is set as text, never as markup. */
"use strict";
(() => {
  const {NAMES, mechanism, plan, short, whole} = Numbers;
  const given = JSON.parse(document.getElementById("given").textContent);
  const at = (id) => document.getElementById(id);
  const percent = (share) => `${short(100 * share, 3)}%`;
  const TICKS = [0.1, 0.2, 0.5, 1, 2, 4, 8, 16];

  // ── the setting: controls, address, and what they come to ──

  const balance = () => document.querySelector("input[name=balance]:checked").value;

  function fillControls(values) {
    for (const id of ["classes", "epsilon", "share", "within"]) at(id).value = Number.isFinite(Number(values[id])) ? values[id] : "";
    at("delta").value = values.delta;
    at("shares").value = values.shares;
    at("accepts").checked = values.accepts;
    at("sure").value = values.sure in given.normal ? values.sure : given.sure;
    const known = ["uniform", "one", "list"].includes(values.balance) ? values.balance : "uniform";
    document.querySelector(`input[name=balance][value=${known}]`).checked = true;
    placeSlider();
  }

  function givenValues() {
    const delta = given.delta < 1e-4 ? given.delta.toExponential() : given.delta;
    return {
      classes: given.classes, epsilon: given.epsilon, delta, accepts: given.accepts_delta,
      balance: given.shares ? "list" : "uniform", share: 90, shares: given.shares ? given.shares.join(", ") : "",
      within: given.within, sure: given.sure,
    };
  }

  // After # the address holds the controls by name; what it leaves out is as given.
  function addressValues() {
    const read = new URLSearchParams(location.hash.slice(1));
    if (!read.has("epsilon")) return null;
    const values = givenValues();
    for (const name of Object.keys(values)) if (read.has(name)) values[name] = read.get(name);
    values.accepts = values.accepts === true || values.accepts === "true";
    return values;
  }

  function keepInAddress() {
    const values = {classes: at("classes").value, epsilon: at("epsilon").value, balance: balance()};
    if (balance() === "one") values.share = at("share").value;
    if (balance() === "list") values.shares = at("shares").value.trim().split(/[\s,;]+/).join(" ");
    Object.assign(values, {delta: at("delta").value, accepts: at("accepts").checked, within: at("within").value, sure: at("sure").value});
    try {
      history.replaceState(null, "", `#${new URLSearchParams(values)}`);
    } catch { /* some viewers of files allow no address; the page works without */ }
  }

  class Fault extends Error {
    constructor(id, message) { super(message); this.id = id; }
  }

  function readNumber(id, low, high, what) {
    const text = at(id).value.trim(), value = Number(text);
    if (text === "" || !(value >= low && value <= high)) throw new Fault(id, `${what} must be a number from ${low} to ${high}.`);
    return value;
  }

  function readShares() {
    const parts = at("shares").value.replace(/%/g, " ").trim().split(/[\s,;]+/).filter(Boolean), shares = parts.map(Number);
    const total = shares.reduce((a, b) => a + b, 0);
    if (shares.length < 2 || shares.length > given.most_classes)
      throw new Fault("shares", `List 2 to ${given.most_classes} shares, one for each class; there are ${shares.length}.`);
    const bad = shares.findIndex((share) => !(Number.isFinite(share) && share >= 0));
    if (bad >= 0) throw new Fault("shares", `Share number ${bad + 1} is not a number from 0 up.`);
    if (!(total > 0) || !Number.isFinite(total)) throw new Fault("shares", "The shares must add up to more than 0.");
    return leavesSomething(shares.map((share) => share / total), "shares");
  }

  function readPrior() {
    if (balance() === "list") return readShares();
    const classes = readNumber("classes", 2, given.most_classes, "The number of classes");
    if (!Number.isInteger(classes)) throw new Fault("classes", "The number of classes must be a whole number.");
    if (balance() === "uniform") return Array(classes).fill(1 / classes);
    const share = readNumber("share", 0, 100, "The share") / 100;
    return leavesSomething([share, ...Array(classes - 1).fill((1 - share) / (classes - 1))], "share");
  }

  function leavesSomething(prior, id) {
    if (Math.max(...prior) > given.most_share) throw new Fault(id, "One class has all, or nearly all: a label then tells nothing.");
    return prior;
  }

  function readSetting() {
    const prior = readPrior(), [low, high] = given.epsilons;
    return {
      prior, balance: balance(), epsilon: readNumber("epsilon", low, high, "ε"),
      delta: readNumber("delta", ...given.deltas, "δ"), acceptsDelta: at("accepts").checked,
      within: readNumber("within", 0.01, 50, "The number of percentage points") / 100, sure: at("sure").value, z: given.normal[at("sure").value],
      judged: given.judged,
    };
  }

  function placeSlider() {
    at("slider").value = Math.log2(Number(at("epsilon").value));
    at("slider").setAttribute("aria-valuetext", `ε = ${at("epsilon").value}`);
  }

  // ── what the page says ──

  function describeBalance(setting) {
    if (setting.balance === "uniform") return "all classes equally likely";
    return setting.balance === "list" ? "class shares as listed" : `one class with a share of ${percent(setting.prior[0])}`;
  }

  function showTable(setting, result) {
    at("setting").textContent = `${setting.prior.length} classes, ε = ${short(setting.epsilon)}, ${describeBalance(setting)}`;
    at("entropy").textContent = short(result.entropy);
    at("said-within").textContent = String(100 * setting.within);
    at("said-sure").textContent = setting.sure;
    at("true-rows").textContent = whole(Math.ceil(0.25 * (setting.z / setting.within) ** 2));
    at("rarest").textContent = percent(result.rarest);
    at("true-auc-rows").textContent = whole(Math.ceil(result.trueAuc));
    for (const option of result.options) {
      const row = at(`row-${option.name}`), chosen = option.name === result.recommended;
      row.classList.toggle("chosen", chosen);
      row.querySelector(".mark").hidden = !chosen;
      const texts = {
        nats: short(option.nats), share: percent(option.nats / result.entropy), flip: percent(option.flip),
        worth: whole(result.entropy / option.nats), rows: whole(Math.ceil(option.rows)), auc: whole(Math.ceil(option.auc)), bytes: option.bytes.toLocaleString("en-US"),
        promise: option.name === "gaussian" ? `ε, δ = ${short(setting.delta)}` : "pure ε", says: option.says,
      };
      for (const [field, text] of Object.entries(texts)) row.querySelector(`[data-field=${field}]`).textContent = text;
    }
    const reason = `: it carries the most${setting.acceptsDelta ? "" : " without a δ"}.`;
    if (at("advice").textContent !== `Take ${result.recommended}${reason}`) {    // said aloud only where it changes
      at("advice").querySelector("strong").textContent = result.recommended;
      at("advice").lastChild.textContent = reason;
    }
  }

  function showNames(prior) {
    const names = at("names");
    if (!names) return;
    names.hidden = prior.length !== given.names.length;
    if (!names.hidden) names.querySelectorAll("td").forEach((cell, i) => { cell.textContent = percent(prior[i]); });
  }

  function showFault(fault) {
    at("fault").hidden = !fault;
    at("fault").textContent = fault ? `${fault.message} The table still shows the last setting that worked.` : "";
    for (const control of at("controls").querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
    if (fault) at(fault.id).setAttribute("aria-invalid", "true");
  }

  // ── the chart: curves depend on prior and δ only, and are computed a little at a time ──

  let curves = null, curvesFor = "", last = null;

  // The ticks, and between two of them so many steps as there is time for: each different share costs.
  function gridFor(prior) {
    const steps = new Set(prior).size > 150 ? 1 : 4;
    const between = (low, high) => Array.from({length: steps}, (_, step) => low * (high / low) ** (step / steps));
    return {steps, epsilons: [...TICKS.slice(1).flatMap((high, i) => between(TICKS[i], high)), TICKS[TICKS.length - 1]]};
  }

  function findCurves(setting, done) {
    const key = JSON.stringify([setting.prior, setting.delta]);
    if (key === curvesFor) return curves && done();
    curvesFor = key; curves = null;
    at("drawing").setAttribute("aria-busy", "true");
    const grid = gridFor(setting.prior), found = {...grid, ...Object.fromEntries(NAMES.map((name) => [name, []]))};
    const jobs = grid.epsilons.flatMap((epsilon) => NAMES.map((name) => [name, epsilon]));
    function work() {
      if (curvesFor !== key) return;            // another setting was chosen meanwhile
      const until = performance.now() + 25;
      while (jobs.length && performance.now() < until) {
        const [name, epsilon] = jobs.shift();
        found[name].push(mechanism(name, epsilon, setting.prior, setting.delta).information(setting.prior));
      }
      if (jobs.length) { setTimeout(work); return; }
      curves = found;
      at("drawing").setAttribute("aria-busy", "false");
      done();
    }
    setTimeout(work);
  }

  function shape(parent, tag, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return parent.appendChild(made);
  }

  function drawChart() {
    const {setting, result} = last, width = Math.max(300, Math.min(860, at("drawing").clientWidth || 860)), height = Math.min(380, width * 0.75);
    const [left, right, top, bottom] = [62, 14, 18, 44];
    const least = Math.min(...NAMES.map((name) => Math.max(1e-12, curves[name][0])));
    const lowest = Math.floor(Math.log10(least)), highest = Math.log10(Math.max(result.entropy, 1e-6));
    const x = (epsilon) => left + ((width - left - right) * Math.log(epsilon / 0.1)) / Math.log(160);
    const y = (nats) => height - bottom - ((height - top - bottom) * (Math.log10(Math.max(nats, 10 ** lowest)) - lowest)) / (highest - lowest);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `Nats carried against ε, from 0.1 to 16. At ε = ${short(setting.epsilon)}: ` +
      result.options.map((option) => `${option.name} ${short(option.nats)}`).join(", ") + `, of ${short(result.entropy)}.`);
    for (const tick of TICKS) {
      shape(svg, "line", {class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: height - bottom});
      shape(svg, "text", {x: x(tick), y: height - bottom + 16, "text-anchor": "middle"}, tick);
    }
    for (let power = lowest; power <= highest; power++) {
      shape(svg, "line", {class: "grid", x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power)});
      shape(svg, "text", {x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end"}, short(10 ** power));
    }
    shape(svg, "text", {class: "quiet", x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle"}, "ε, the privacy cost of a label");
    const sideways = `translate(12 ${(top + height - bottom) / 2}) rotate(-90)`;
    shape(svg, "text", {class: "quiet", transform: sideways, "text-anchor": "middle"}, "nats carried");
    shape(svg, "line", {class: "all", x1: left, x2: width - right, y1: y(result.entropy), y2: y(result.entropy)});
    shape(svg, "text", {class: "quiet", x: left + 4, y: y(result.entropy) - 5}, `all there is: ${short(result.entropy)}`);
    shape(svg, "line", {class: "now", x1: x(setting.epsilon), x2: x(setting.epsilon), y1: top, y2: height - bottom});
    for (const name of NAMES) {
      const points = curves.epsilons.map((epsilon, i) => `${x(epsilon).toFixed(1)},${y(curves[name][i]).toFixed(1)}`);
      shape(svg, "polyline", {class: `line ${name}`, points: points.join(" ")});
    }
    for (const option of result.options) shape(svg, "circle", {class: `dot ${option.name}`, cx: x(setting.epsilon), cy: y(option.nats), r: 4.5});
    at("drawing").replaceChildren(svg);
    showCurveTable();
  }

  function showCurveTable() {
    const body = at("curve").tBodies[0];
    body.replaceChildren(...TICKS.map((tick, i) => {
      const row = document.createElement("tr"), head = row.appendChild(document.createElement("th"));
      head.scope = "row"; head.textContent = tick;
      for (const name of NAMES) {
        const cell = row.appendChild(document.createElement("td"));
        cell.className = "number"; cell.textContent = short(curves[name][curves.steps * i]);
      }
      return row;
    }));
  }

  // ── following the controls ──

  function update() {
    at("one-part").hidden = balance() !== "one";
    at("list-part").hidden = balance() !== "list";
    at("classes").disabled = balance() === "list";
    let setting;
    try {
      setting = readSetting();
    } catch (fault) {
      if (!(fault instanceof Fault)) throw fault;
      return showFault(fault);
    }
    showFault(null);
    if (balance() === "list") at("classes").value = setting.prior.length;
    last = {setting, result: plan(setting)};
    showTable(setting, last.result);
    showNames(setting.prior);
    findCurves(setting, drawChart);
  }

  let waiting = false;
  function soon() {
    keepInAddress();
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; update(); });
  }

  function followAddress() {
    const values = addressValues();
    if (values) { fillControls(values); update(); }
  }

  function begin() {
    const [low, high] = given.epsilons;
    Object.assign(at("slider"), {min: Math.log2(low), max: Math.log2(high)});
    fillControls(givenValues());
    at("slider").addEventListener("input", () => {
      at("epsilon").value = Number(Math.min(high, Math.max(low, 2 ** at("slider").value)).toPrecision(2));
      at("slider").setAttribute("aria-valuetext", `ε = ${at("epsilon").value}`);
    });
    at("epsilon").addEventListener("input", placeSlider);
    at("controls").addEventListener("input", soon);
    at("controls").addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", followAddress);
    addEventListener("resize", () => curves && drawChart());
    at("controls").hidden = at("chart").hidden = false;
    update();
    followAddress();
    document.body.dataset.ready = "true";
  }

  begin();
})();
