/* What each mechanism carries, in floating point: the same formulas as labeldp/mechanisms, without its integers over 2^64.
   A mechanism is {name, kept, moments, information, …}; `prior` is a list of class shares that add up to 1. */
"use strict";
const Numbers = (() => {
  const NAMES = ["response", "subset", "unary", "laplace", "gaussian"];
  const MARGIN = 2 ** -40;      // a calibrated mechanism aims this share below ε
  const SLACK = 2 ** -10;       // the share of ε and δ that a Gaussian table's rounding may use
  const EVERY_SIZE = 512;       // up to so many classes every subset size is tried
  const STEP = 0.3;             // of the quadrature: it errs by about e^(−π²/STEP), 5e-15

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const entropy = (prior) => -sum(prior.map((p) => (p > 0 ? p * Math.log(p) : 0)));
  const isUniform = (prior) => prior.every((p) => p === prior[0]);

  // ── the normal law: Mills' ratio R(z) = Φ(−z)/φ(z) ──

  const density = (z) => Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI);

  function mills(z) {
    if (z < 0) return 1 / density(z) - mills(-z);
    if (z >= 1.5) {             // Laplace's continued fraction 1/(z + 1/(z + 2/(z + …))), from the far end
      let fraction = z;
      for (let n = 120; n > 0; n--) fraction = z + n / fraction;
      return 1 / fraction;
    }
    let term = z, total = z;    // Φ(z) = 1/2 + φ(z)·(z + z³/3 + z⁵/(3·5) + …)
    for (let n = 3; term > total * 1e-17; n += 2) total += term *= (z * z) / n;
    return 0.5 / density(z) - total;
  }

  const upperTail = (z) => (z < 0 ? 1 - upperTail(-z) : density(z) * mills(z));

  // δ(ε) = φ(a)·(R(a) − R(b)),  a = ε/μ − μ/2,  b = ε/μ + μ/2  (Balle & Wang 2018)
  function gaussianDelta(mu, epsilon) {
    const a = epsilon / mu - mu / 2, b = epsilon / mu + mu / 2;
    return a < -30 ? 1 : density(a) * (mills(a) - mills(b));
  }

  function gaussianMu(epsilon, delta) {
    let low = 0, high = 1;
    while (gaussianDelta(high, epsilon) <= delta) high *= 2;
    for (let i = 0; i < 60; i++) {
      const middle = (low + high) / 2;
      if (gaussianDelta(middle, epsilon) <= delta) low = middle; else high = middle;
    }
    return low;
  }

  // σ = √2/μ, with room for the slack of the table's integers
  function gaussianSigma(epsilon, delta) {
    const ratio = epsilon * SLACK;
    return Math.SQRT2 / gaussianMu(epsilon - ratio, (delta * (1 - SLACK)) / Math.exp(ratio / 2));
  }

  // ── E[X log X] = ∫ (E[X]·e^(−t) − E[X·e^(−tX)]) du,  t = e^u  (labeldp/mechanisms/information.py) ──

  function expectedXLogX(mean, tilted, low, high) {
    let total = 0;
    for (let u = low; u <= high; u += STEP) {
      const t = Math.exp(u);
      total += mean * Math.exp(-t) - tilted(t);
    }
    return STEP * total;
  }

  // ── one class number: the true class with probability `keep`, each other with `other` ──

  const coin = (p, q) => ({meanTrue: p, meanOther: q, varianceTrue: p * (1 - p), varianceOther: q * (1 - q)});

  function response(epsilon, classes) {
    const e = Math.exp(epsilon * (1 - MARGIN)), other = 1 / (e + classes - 1), keep = e * other;
    return {
      name: "response", flip: (classes - 1) * other, moments: coin(keep, other), bytes: classes <= 256 ? 1 : 2,
      says: `keeps the label with probability ${short(keep)}`,
      // Σ_y π_y Σ_o p(o|y)·log(p(o|y)/p(o)),  p(o) = other + (keep − other)·π_o
      information: (prior) => Math.max(0, sum(prior.map((p) => {
        const marginal = other + (keep - other) * p;
        return keep * p * Math.log(keep / marginal) + other * (1 - p) * Math.log(other / marginal);
      }))),
    };
  }

  // ── k-subset: X = 1 + (e^ε − 1)·π(U) for a uniform k-subset U;  I = holds·ε − E[X log X]/E[X] ──

  function subsetMean(epsilon, classes, size) {
    const mean = 1 + (Math.expm1(epsilon) * size) / classes;
    return {mean, holds: (size * Math.exp(epsilon)) / classes / mean};
  }

  function subsetUniform(epsilon, classes, size) {
    const {mean, holds} = subsetMean(epsilon, classes, size);
    return holds * epsilon - Math.log(mean);
  }

  // One class of its own share, the others alike: X has two values.
  function subsetOneApart(epsilon, prior, apart, size) {
    const classes = prior.length, rest = prior[apart === 0 ? 1 : 0], gain = Math.expm1(epsilon);
    const {mean, holds} = subsetMean(epsilon, classes, size);
    const within = 1 + gain * (prior[apart] + (size - 1) * rest), without = 1 + gain * size * rest;
    const xLogX = (size / classes) * within * Math.log(within) + (1 - size / classes) * without * Math.log(without);
    return holds * epsilon - xLogX / mean;
  }

  // Any prior, all sizes 1 … largest at once. E[X·e^(−tX)] is an elementary symmetric polynomial, built class by class; Bernoulli(q)
  // weights keep it within range and are divided out again.
  function subsetSizes(epsilon, prior, largest) {
    const classes = prior.length, gain = Math.expm1(epsilon), q = Math.min(0.5, largest / classes);
    const value = new Float64Array(largest + 1), slope = new Float64Array(largest + 1), chance = new Float64Array(largest + 1);
    const total = new Float64Array(largest + 1);
    chance[0] = 1;
    for (let c = 0; c < classes; c++) {
      for (let k = largest; k > 0; k--) chance[k] = (1 - q) * chance[k] + q * chance[k - 1];
      chance[0] *= 1 - q;
    }
    for (let u = -50; u <= 6.6; u += STEP) {     // beyond t = 745, e^(−t) is 0
      const t = Math.exp(u), decay = Math.exp(-t);
      value.fill(0); slope.fill(0); value[0] = 1;
      for (const p of prior) {
        const factor = q * Math.exp(-t * gain * p), weight = gain * p;
        for (let k = largest; k > 0; k--) {
          slope[k] = (1 - q) * slope[k] + factor * (slope[k - 1] + weight * value[k - 1]);
          value[k] = (1 - q) * value[k] + factor * value[k - 1];
        }
        slope[0] *= 1 - q; value[0] *= 1 - q;
      }
      for (let k = 1; k <= largest; k++) {
        total[k] += decay * (1 + (gain * k) / classes - (value[k] + slope[k]) / chance[k]);
      }
    }
    return Array.from({length: largest}, (_, i) => {
      const {mean, holds} = subsetMean(epsilon, classes, i + 1);
      return Math.max(0, holds * epsilon - (STEP * total[i + 1]) / mean);
    });
  }

  // The place of the one class whose share differs from all others, −1 if the prior is not of that kind.
  function placeApart(prior) {
    const common = prior[0] === prior[1] || prior[0] === prior[2] ? prior[0] : prior[1];
    const others = prior.map((p, i) => (p === common ? -1 : i)).filter((i) => i >= 0);
    return others.length === 1 ? others[0] : -1;
  }

  function subset(epsilon, classes, prior) {
    const aim = epsilon * (1 - MARGIN), apart = placeApart(prior);
    const sizes = Array.from({length: classes - 1}, (_, i) => i + 1);
    const uniform = sizes.map((k) => subsetUniform(aim, classes, k));
    const best = (values) => 1 + values.indexOf(Math.max(...values));
    let size = best(uniform), information = uniform[size - 1];
    if (apart >= 0) {
      const nats = sizes.map((k) => subsetOneApart(aim, prior, apart, k));
      if (classes <= EVERY_SIZE) size = best(nats);
      information = nats[size - 1];
    } else if (!isUniform(prior)) {
      const nats = subsetSizes(aim, prior, classes <= EVERY_SIZE ? classes - 1 : size);
      if (classes <= EVERY_SIZE) size = best(nats);
      information = nats[size - 1];
    }
    const e = Math.exp(aim), holds = (size * e) / (size * e + classes - size);
    const other = (holds * (size - 1) + (1 - holds) * size) / (classes - 1);
    return {
      name: "subset", flip: 1 - holds / size, moments: coin(holds, other), bytes: Math.ceil(classes / 8),
      says: `${size} of ${classes} classes, the label among them with probability ${short(holds)}`,
      information: () => information,
    };
  }

  // ── one-hot label, noised coordinate by coordinate: cells with masses `other` (mirrored at the true class) and `evidence` ──

  // E[X·e^(−tX)] for X = Σ_c π_c·e^(evidence at c): a product of L(tπ_c), L(s) = Σ other·e^(−s·ratio); 1 − L does not cancel.
  function productInformation(cells, prior) {
    const {other, evidence} = cells, ratio = evidence.map(Math.exp), groups = new Map();
    prior.filter((p) => p > 0).forEach((p) => groups.set(p, (groups.get(p) || 0) + 1));
    function tilted(t) {
      let logProduct = 0, mean = 0;
      for (const [p, count] of groups) {
        let below = 0, slope = 0;
        for (let j = 0; j < other.length; j++) {
          const fall = Math.expm1(-ratio[j] * t * p);
          below += other[j] * fall;
          slope += other[j] * ratio[j] * (1 + fall);
        }
        if (!(below > -1)) return 0;
        logProduct += count * Math.log1p(below);
        mean += (count * p * slope) / (1 + below);
      }
      return Math.exp(logProduct) * mean;
    }
    const truth = sum(other.map((p, j) => p * ratio[j] * evidence[j]));
    return Math.max(0, truth - expectedXLogX(1, tilted, -50, 5 - Math.min(...evidence)));
  }

  // Σ_v p₁(v)·B^(C−1)·(1 − (1−x)^C)/(C·x),  B = P₀[at most v],  x = p₀(v)/B: the truth's evidence is largest, or wins the tie
  function truthWins({other, evidence}, classes) {
    let total = 0, atMost = 0;
    for (let j = 0; j < other.length; j++) {
      atMost += other[j];
      const x = Math.min(1, other[j] / atMost), noneTied = Math.expm1(classes * Math.log1p(-x));
      total += (other[j] * Math.exp(evidence[j]) * Math.exp((classes - 1) * Math.log(Math.min(1, atMost))) * -noneTied) / (classes * x);
    }
    return total;
  }

  // Of the posterior at even odds, 1/(1 + e^(−evidence)), stretched to [0, 1] and rounded to 64 levels
  function productMoments({other, evidence}) {
    const even = evidence.map((e) => 1 / (1 + Math.exp(-e))), least = Math.min(...even), span = Math.max(...even) - least;
    const score = even.map((g) => Math.round(((g - least) / span) * 64) / 64), truth = other.map((p, j) => p * Math.exp(evidence[j]));
    const mean = (law) => sum(law.map((p, j) => p * score[j]));
    const variance = (law, middle) => sum(law.map((p, j) => p * (score[j] - middle) ** 2));
    const meanTrue = mean(truth), meanOther = mean(other);
    return {meanTrue, meanOther, varianceTrue: variance(truth, meanTrue), varianceOther: variance(other, meanOther)};
  }

  const product = (name, cells, classes, bytes, says) => ({
    name, flip: 1 - truthWins(cells, classes), moments: productMoments(cells), bytes, says,
    information: (prior) => productInformation(cells, prior),
  });

  function unary(epsilon, classes) {
    const half = (epsilon * (1 - MARGIN)) / 2, keep = 1 / (1 + Math.exp(-half)), cells = {other: [keep, 1 - keep], evidence: [-half, half]};
    return product("unary", cells, classes, Math.ceil(classes / 8), `a bit for each class, kept with probability ${short(keep)}`);
  }

  // λ = 2/ε. Below 0 and above 1 the evidence is −1/λ and 1/λ; between, 64 cells.
  function laplace(epsilon, classes) {
    const rate = epsilon / 2, inside = Array.from({length: 64}, (_, i) => i / 64);
    const cells = {
      other: [0.5, ...inside.map((a) => (Math.exp(-a * rate) * -Math.expm1(-rate / 64)) / 2), Math.exp(-rate) / 2],
      evidence: [-rate, ...inside.map((a) => (2 * a + 1 / 64 - 1) * rate), rate],
    };
    return product("laplace", cells, classes, classes, `one-hot label plus Laplace noise of scale ${short(1 / rate)}`);
  }

  // 256 cells: 254 equal ones, symmetric about 1/2 and out to 6.7 σ, and the two tails.
  function gaussian(epsilon, classes, delta) {
    const sigma = gaussianSigma(epsilon, delta), half = 6.7 * sigma - 0.5, width = (2 * half) / 254;
    const edges = Array.from({length: 255}, (_, i) => (0.5 - half + i * width) / sigma), tails = edges.map((z) => upperTail(Math.abs(z)));
    const between = (i) => (edges[i] <= 0 ? tails[i] - tails[i - 1] : edges[i - 1] >= 0 ? tails[i - 1] - tails[i] : 1 - tails[i - 1] - tails[i]);
    const other = edges.map((z, i) => (i === 0 ? (z < 0 ? tails[0] : 1 - tails[0]) : between(i))).concat(tails[254]);
    const cells = {other, evidence: other.map((p, j) => Math.log(other[255 - j] / p))};
    return product("gaussian", cells, classes, classes, `one-hot label plus Gaussian noise of σ = ${short(sigma)}`);
  }

  function mechanism(name, epsilon, prior, delta) {
    const classes = prior.length;
    return {response, subset: () => subset(epsilon, classes, prior), unary, laplace, gaussian}[name](epsilon, classes, delta);
  }

  // ── what is made of them ──

  // z²·V/(gap²·within²) rows, V = a·v₁ + (1−a)·v₀ + a(1−a)·gap² at the accuracy a where it is largest
  function rowsNeeded({meanTrue, meanOther, varianceTrue, varianceOther}, within, z) {
    const gap = meanTrue - meanOther, a = Math.min(1, Math.max(0, 0.5 + (varianceTrue - varianceOther) / (2 * gap * gap)));
    return (z / within) ** 2 * ((a * varianceTrue + (1 - a) * varianceOther) / (gap * gap) + a * (1 - a));
  }

  // What the rows cost that tell an AUC, at the share of the rarest class: n·Var = drawn + (π·v₁·E₁ + (1−π)·v₀·E₀)/π²(1−π)²  (labeldp/evaluation/rows.py)
  function ranking(share, {auc, apart}) {
    const rest = 1 - share, found = {drawn: 0, positives: 0, others: 0}, chance = (s) => upperTail(-s);
    for (let i = 0; i <= 340; i++) {
      const s = -8.5 + i / 20, weight = density(s) / 20, aboveOthers = chance(s + apart) - auc, abovePositives = 1 - chance(s - apart) - auc;
      found.drawn += weight * (aboveOthers ** 2 / share + abovePositives ** 2 / rest);
      found.positives += weight * (rest * aboveOthers - share * (1 - chance(s) - auc)) ** 2;
      found.others += weight * (rest * (chance(s) - auc) - share * abovePositives) ** 2;
    }
    return found;
  }

  function rowsForAuc({name, moments}, classes, share, {drawn, positives, others}, error) {
    const gap = moments.meanTrue - moments.meanOther, twice = classes === 2 && ["unary", "laplace", "gaussian"].includes(name);
    const both = (moments.varianceTrue + moments.varianceOther) / 4;    // (g₁ + 1 − g₀)/2 says twice which of two classes it is
    const [v1, v0] = (twice ? [both, both] : [moments.varianceTrue, moments.varianceOther]).map((variance) => variance / gap ** 2);
    return (drawn + (share * v1 * positives + (1 - share) * v0 * others) / (share * (1 - share)) ** 2) / error ** 2;
  }

  function plan({epsilon, prior, delta, acceptsDelta, within, z, judged}) {
    const rarest = Math.min(...prior.filter((p) => p > 0)), parts = ranking(rarest, judged);
    const options = NAMES.map((name) => {
      const made = mechanism(name, epsilon, prior, delta), nats = made.information(prior);
      return {...made, nats, rows: rowsNeeded(made.moments, within, z), auc: rowsForAuc(made, prior.length, rarest, parts, judged.error)};
    });
    const eligible = options.filter((option) => acceptsDelta || option.name !== "gaussian");
    const most = Math.max(...eligible.map((option) => option.nats));
    return {options, rarest, trueAuc: parts.drawn / judged.error ** 2, entropy: entropy(prior), recommended: eligible.find((option) => option.nats >= most * (1 - 1e-6)).name};
  }

  // ── how numbers are written (as plan_page.py does) ──

  function short(value, digits = 4) {
    if (value === 0) return "0";
    if (value < 1e-4) return value.toExponential(digits - 1).replace(/\.?0+e/, "e");
    return String(Number(value.toPrecision(digits)));
  }

  const whole = (value) => Number(value.toPrecision(3)).toLocaleString("en-US", {maximumFractionDigits: 2});

  return {NAMES, mechanism, plan, rowsNeeded, short, whole};
})();
