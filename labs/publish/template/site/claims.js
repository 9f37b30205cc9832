// Shows the claims of which one verdict is of the chosen kernel, testbed and word.
"use strict";
(() => {
  const filters = document.querySelector(".filters"), count = filters.querySelector("output");
  const claims = [...document.querySelectorAll(".claim")];
  const chosen = () => Object.fromEntries([...filters.querySelectorAll("select")].map((one) => [one.name, one.value]));
  const show = () => {
    const { article, kernel, testbed, verdict } = chosen();
    const words = filters.querySelector("input").value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const claim of claims) {
      const fits = claim.dataset.verdicts.split(";").some((one) => {
        const [on, series, word] = one.split("|");
        return (!testbed || on === testbed) && (!kernel || series === kernel) && (!verdict || word === verdict);
      });
      const text = claim.textContent.toLowerCase();
      claim.hidden = !(fits && (!article || claim.dataset.article === article) && words.every((word) => text.includes(word)));
      shown += !claim.hidden;
    }
    for (const section of document.querySelectorAll("section.article")) section.hidden = !section.querySelector(".claim:not([hidden])");
    count.textContent = `${shown} of ${claims.length} claims`;
  };
  filters.hidden = false;
  filters.addEventListener("input", show);
  filters.addEventListener("reset", () => setTimeout(show));
  filters.addEventListener("submit", (event) => event.preventDefault());
  show();
})();
