// The texts of charts whose contrast with the page is below 3 (WCAG 2.2, 1.4.11).
() => {
  const light = (colour) => {
    const [red, green, blue] = colour.match(/[\d.]+/g).map((part) => {
      const share = Number(part) / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ground = light(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll(".plot svg text")]
    .filter((text) => text.checkVisibility() && text.getClientRects().length)
    .filter((text) => {
      const own = light(getComputedStyle(text).fill);
      return (Math.max(own, ground) + 0.05) / (Math.min(own, ground) + 0.05) < 3;
    })
    .map((text) => text.textContent);
}
