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

// Every word must occur; a word in a title counts for more than in the text, a whole one for more than a part.
function score(entry, words) {
  const title = entry.title.toLowerCase(), text = entry.text.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const inTitle = title.includes(word), at = text.indexOf(word);
    if (!inTitle && at < 0) return 0;
    sum += (inTitle ? 20 : 0) + (title.split(/[\s.]+/).includes(word) ? 20 : 0) + (at < 0 ? 0 : Math.min(5, text.split(word).length - 1));
  }
  return sum;
}

function excerpt(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 50);
  return (at ? "…" : "") + text.slice(at, at + 150).replace(/\s+/g, " ") + "…";
}

async function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter((word) => word.length > 1);
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
