// Charts drawn from the data beside them, legends that hide and show traces, and charts that fit a sheet of paper when printed.
"use strict";
(() => {
  const SHEET_PX = 660, PAGE_PX = 880, SQUEEZED_PX = 1300; // A4 and Letter between their margins
  for (const data of document.querySelectorAll(".plot script")) {
    Plotly.newPlot(data.previousElementSibling, JSON.parse(data.textContent));
  }
  const charts = [...document.querySelectorAll(".js-plotly-plot")];
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const chart = button.closest("figure").querySelector(".js-plotly-plot");
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      Plotly.restyle(chart, { visible: shown }, button.dataset.traces.split(" ").map(Number));
    });
  }
  const heights = new Map(charts.map((chart) => [chart, chart.layout.height]));
  const fits = (height) => (height > SQUEEZED_PX ? height : Math.min(height, PAGE_PX));
  addEventListener("beforeprint", () => {
    for (const [chart, height] of heights) {
      Plotly.relayout(chart, { width: SHEET_PX, height: fits(height), autosize: false });
    }
  });
  addEventListener("afterprint", () => {
    for (const [chart, height] of heights) {
      Plotly.relayout(chart, { width: null, height, autosize: true });
    }
  });
})();
