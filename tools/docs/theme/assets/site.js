// Search without a server: the index is a script that is loaded when somebody first types.
"use strict";
const root = document.currentScript.dataset.root;
const field = document.getElementById("search");
const list = document.getElementById("found");
let loading = null;

function load() {
  loading ??= new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = `${root}/search/index.js`;
    script.onload = () => resolve(window.searchIndex);
    document.head.append(script);
  });
  return loading;
}

// Where words begin with these letters: "date" is not in "candidates".
function beginning(word) {
  return new RegExp(`(?<![\\p{L}\\p{N}])${word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")}`, "giu");
}

// Every word must begin somewhere; in a title it counts for more than in the text, a whole one for more than a part.
function score(entry, words) {
  let sum = 0;
  for (const word of words) {
    const inTitle = (entry.title.match(beginning(word)) ?? []).length, inText = (entry.text.match(beginning(word)) ?? []).length;
    if (!inTitle && !inText) return 0;
    sum += (inTitle ? 20 : 0) + (entry.title.toLowerCase().split(/[\s.]+/).includes(word) ? 20 : 0) + Math.min(5, inText);
  }
  return sum;
}

function excerpt(text, word) {
  const at = Math.max(0, text.search(beginning(word)) - 50);
  return (at ? "…" : "") + text.slice(at, at + 150).replace(/\s+/g, " ") + "…";
}

async function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter((word) => word.length > 1 || word > "\u007f");
  if (!words.length) { list.hidden = true; return; }
  const entries = await load();
  const best = entries.map((entry) => [score(entry, words), entry]).filter(([points]) => points)
    .sort(([a], [b]) => b - a).slice(0, 15);
  list.replaceChildren(...best.map(([, entry]) => {
    const item = document.createElement("li"), link = document.createElement("a");
    const title = document.createElement("strong"), text = document.createElement("small");
    title.textContent = entry.title;
    text.textContent = excerpt(entry.text, words[0]);
    link.href = `${root}/${entry.location}`;
    link.append(title, text);
    item.append(link);
    return item;
  }));
  if (!best.length) list.append(Object.assign(document.createElement("li"), { textContent: "Nothing found." }));
  list.hidden = false;
}

field.addEventListener("input", search);
field.form.addEventListener("submit", (event) => { event.preventDefault(); list.querySelector("a")?.click(); });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, textarea")) { event.preventDefault(); field.focus(); }
  if (event.key === "Escape") list.hidden = true;
});
document.addEventListener("click", (event) => { if (!event.target.closest(".search")) list.hidden = true; });

const menu = document.querySelector(".menu"), pages = document.getElementById("pages");
menu.addEventListener("click", () => menu.setAttribute("aria-expanded", pages.classList.toggle("open")));
