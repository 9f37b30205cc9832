// Finds the sections that contain all words; INDEX is in search-index.js: [address, title, text].
"use strict";
(() => {
  const MOST = 40, AROUND = 80;
  const input = document.getElementById("words"), found = document.getElementById("found"), count = document.getElementById("count");
  const lower = INDEX.map(([, title, text]) => [title.toLowerCase(), text.toLowerCase()]);
  const search = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = !words.length ? [] : lower
      .map(([title, text], at) => ({ at, score: words.map((word) => (title.includes(word) ? 3 : 0) + (text.includes(word) ? 1 : 0)) }))
      .filter(({ score }) => score.every(Boolean))
      .sort((a, b) => Math.min(...b.score) - Math.min(...a.score) || a.at - b.at);
    found.replaceChildren(...hits.slice(0, MOST).map(({ at }) => {
      const [address, title, text] = INDEX[at], item = document.createElement("li");
      const link = document.createElement("a"), part = document.createElement("small");
      const place = Math.max(0, lower[at][1].indexOf(words[0]) - AROUND);
      link.href = address;
      link.textContent = title;
      part.textContent = `${place ? "… " : ""}${text.slice(place, place + 3 * AROUND)} …`;
      item.append(link, part);
      return item;
    }));
    count.textContent = words.length ? `${hits.length} sections` : "";
  };
  input.value = new URLSearchParams(location.search).get("words") ?? "";
  input.addEventListener("input", search);
  input.focus();
  search();
})();
