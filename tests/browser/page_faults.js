// What is wrong with how a published page looks, one line each.
(print) => {
  const faults = [];
  const say = (what, element) => {
    const figure = element.closest("figure");
    const where = figure ? figure.querySelector("figcaption").textContent : element.tagName;
    faults.push(`${where}: ${what}`);
  };
  const shown = (element) => element.checkVisibility() && element.getClientRects().length > 0;
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) say(`${root.scrollWidth} px wide`, root);
  for (const pre of document.querySelectorAll("pre")) {
    if (shown(pre) && pre.scrollWidth > pre.clientWidth + 1) say("a long line", pre);
  }
  // In a narrow window a wide table has a scroll bar of its own; on paper there is none.
  for (const box of document.querySelectorAll(".html")) {
    if (!shown(box) || box.scrollWidth <= box.clientWidth + 1) continue;
    if (print) say("a wide table", box);
    else if (box.tabIndex !== 0) say("the keys do not scroll it", box);
    else if (getComputedStyle(box).maskImage === "none") say("nothing says that it scrolls", box);
  }
  for (const bar of document.querySelectorAll(".modebar-container"))
    if (root.clientWidth <= 700 && shown(bar)) say("a toolbar over the labels", bar);
  for (const drawing of document.querySelectorAll(".html > svg"))
    if (!print && drawing.getBoundingClientRect().width < 600) say("a tiny drawing", drawing);
  for (const table of document.querySelectorAll(".outputs table")) {
    if (!table.caption) say("a table without caption", table);
    if (table.querySelector("th:not([scope])")) say("a heading without scope", table);
  }
  const narrow = root.clientWidth <= 700;
  for (const figure of document.querySelectorAll("figure.chart")) {
    const plot = figure.querySelector(".plot"), label = plot.getAttribute("aria-label");
    const box = plot.getBoundingClientRect();
    if (plot.getAttribute("role") !== "img" || label.length < 20) say("no text alternative", plot);
    if (!figure.querySelector(".numbers td")) say("no table of its numbers", plot);
    const drawn = [...plot.querySelectorAll(".trace path, .barlayer path")].filter((path) => {
      const { width, height } = path.getBoundingClientRect();
      return width + height > 0;
    });
    if (!drawn.length) say("an empty chart", plot);
    if (box.width < 250 || box.right > root.clientWidth + 1) say(`${box.width} px wide`, plot);
    for (const text of plot.querySelectorAll("svg text")) {
      const { left, right, top, bottom, width } = text.getBoundingClientRect();
      if (!width || !shown(text)) continue;
      if (left < box.left - 2 || right > box.right + 2 || top < box.top - 2 || bottom > box.bottom + 2)
        say(`“${text.textContent}” is cut off`, plot);
    }
    for (const axis of plot.querySelectorAll("g[class*=xaxislayer]")) {
      const ticks = [...axis.querySelectorAll("text")].filter((text) => text.textContent.trim());
      const titles = [...plot.querySelectorAll("[class*=xtitle]")].map((title) => title.textContent);
      const logarithmic = titles.some((title) => /logarithmic/.test(title));
      if (logarithmic && ticks.some((text) => /rotate\((?!0[,)])/.test(text.getAttribute("transform")))) say("slanted labels", plot);
      const boxes = ticks.map((text) => text.getBoundingClientRect());
      if (logarithmic && boxes.some(({ left }, at) => at && left < boxes[at - 1].right)) say("labels overlap", plot);
    }
    const legend = figure.querySelector(".legend");
    if (legend && narrow && !print && legend.getBoundingClientRect().top < box.bottom - 1)
      say("the legend is not below the plot", plot);
    for (const entry of figure.querySelectorAll(".legend button")) {
      const { left, right } = entry.getBoundingClientRect(), own = figure.getBoundingClientRect();
      if (left < own.left - 1 || right > own.right + 1) say("a legend is cut off", plot);
    }
  }
  return faults;
}
