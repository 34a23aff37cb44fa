// A guess's probability before, and the most that it can become.
"use strict";
for (const card of document.querySelectorAll(".reading")) {
  const epsilon = Number(card.dataset.epsilon);
  const slider = card.querySelector("input");
  // never less than it is: what is bounded must not look better
  const say = (share) => (share >= 0.999 ? (share < 1 ? "over 99.9%" : "100%") : (Math.ceil(1000 * share) / 10).toFixed(1) + "%");
  const show = () => {
    const p = Number(slider.value) / 100;
    // p·e^ε / (1 − p + p·e^ε), in a form that cannot overflow
    const after = 1 / (1 + ((1 - p) / p) * Math.exp(-epsilon));
    card.querySelector(".before").textContent = slider.value + "%";
    card.querySelector(".after").textContent = say(after);
    slider.setAttribute("aria-valuetext", slider.value + "% becomes at most " + say(after));
  };
  slider.addEventListener("input", show);
  show();
}

// Runs are folded where there are many: a link to one opens it, and paper gets all of them.
const opened = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target && target.closest("details");
  if (folded) {
    folded.open = true;
    target.scrollIntoView();
  }
};
addEventListener("hashchange", opened);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));
opened();
