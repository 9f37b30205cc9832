// Charts drawn from the data beside them, legends that hide and show traces, charts that fit a sheet of paper when printed, and
// tables that say where they go on.
"use strict";
(() => {
  const SHEET_PX = 660, PAGE_PX = 880, SQUEEZED_PX = 1300; // A4 and Letter between their margins
  const PANELS_PX = 540; // plots one below the other leave room for text on their sheet
  const drawn = new Map(); // a chart with frames is complete only when its promise is fulfilled
  for (const data of document.querySelectorAll(".plot script")) {
    const chart = data.previousElementSibling;
    drawn.set(chart, Plotly.newPlot(chart, JSON.parse(data.textContent)));
  }
  const charts = [...document.querySelectorAll(".js-plotly-plot")];
  // On a logarithmic axis the labels are given. Those without room are left out; plotly would slant all of them.
  const LETTER_PX = 8, GAP_PX = 6;
  const labels = (chart) => Object.entries(chart.layout).filter(([name, axis]) => /^xaxis\d*$/.test(name) && axis.ticktext);
  const given = new Map(charts.map((chart) => [chart, new Map(labels(chart).map(([name, axis]) => [name, [...axis.ticktext]]))]));
  const thin = (chart) => {
    const changed = {};
    for (const [name, texts] of given.get(chart)) {
      const axis = chart._fullLayout[name];
      let end = -Infinity;
      const fitting = texts.map((text, at) => {
        const middle = axis.d2p(axis.tickvals[at]), half = (text.length * LETTER_PX) / 2;
        if (middle - half < end) return "";
        end = middle + half + GAP_PX;
        return text;
      });
      if (fitting.join() !== axis.ticktext.join()) changed[`${name}.ticktext`] = fitting;
    }
    if (Object.keys(changed).length) Plotly.relayout(chart, changed);
  };
  for (const chart of charts) {
    if (!given.get(chart).size) continue;
    drawn.get(chart).then(() => {
      chart.on("plotly_afterplot", () => thin(chart));
      thin(chart);
    });
  }
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const chart = button.closest("figure").querySelector(".js-plotly-plot");
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      Plotly.restyle(chart, { visible: shown }, button.dataset.traces.split(" ").map(Number));
    });
  }
  const heights = new Map(charts.map((chart) => [chart, chart.layout.height]));
  const panels = (chart) => chart.layout.yaxis2 && !chart.data.some(({ type }) => type === "bar");
  const fits = (chart, height) =>
    height > SQUEEZED_PX ? height : Math.min(height, panels(chart) ? PANELS_PX : PAGE_PX);
  const resize = (chart, height, width) => {
    chart.style.height = `${height}px`;
    Plotly.relayout(chart, { width, height, autosize: width === null });
  };
  addEventListener("beforeprint", () => {
    for (const [chart, height] of heights) resize(chart, fits(chart, height), SHEET_PX);
  });
  const wide = (box) => {
    const hidden = box.scrollWidth - box.clientWidth;
    box.classList.toggle("more", hidden - box.scrollLeft > 1);
    if (hidden > 1) box.tabIndex = 0; // so that the keys scroll it
    else box.removeAttribute("tabindex");
  };
  const resized = new ResizeObserver((seen) => seen.forEach(({ target }) => wide(target)));
  for (const box of document.querySelectorAll(".html, .text table")) {
    box.addEventListener("scroll", () => wide(box), { passive: true });
    wide(box); // an observer is called only before the next frame
    resized.observe(box);
  }
  addEventListener("afterprint", () => {
    for (const [chart, height] of heights) resize(chart, height, null);
  });
  // A figure in steps: each step is a frame, shown by the slider or one after another.
  const STEP_MS = 1200, AT_ONCE = { mode: "immediate", frame: { duration: 0, redraw: true }, transition: { duration: 0 } };
  for (const steps of document.querySelectorAll(".steps")) {
    const chart = steps.closest("figure").querySelector(".js-plotly-plot");
    const [play, range, told] = ["button", "input", "output"].map((name) => steps.querySelector(name));
    const names = JSON.parse(steps.dataset.names);
    let playing = null;
    const show = (step) => {
      range.value = step;
      told.textContent = names[step];
      range.setAttribute("aria-valuetext", names[step]);
      Plotly.animate(chart, [String(step)], AT_ONCE);
    };
    const stop = () => {
      clearInterval(playing);
      playing = null;
      play.textContent = "Play";
    };
    range.addEventListener("input", () => {
      stop();
      show(Number(range.value));
    });
    play.addEventListener("click", () => {
      if (playing) return stop();
      const last = names.length - 1, at = Number(range.value);
      show(at === last ? 0 : at + 1);
      play.textContent = "Stop";
      playing = setInterval(() => {
        if (Number(range.value) === last) stop();
        else show(Number(range.value) + 1);
      }, STEP_MS);
    });
  }
})();
