// Runs in every page before what looks at its parts; window.look is what they share.
(() => {
  const problems = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const hasBox = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  };
  const require = (selector, atLeast, good = hasBox) => {
    const found = all(selector);
    if (found.length < atLeast) problems.push(`expected ${atLeast} ${selector}, got ${found.length}`);
    for (const element of found)
      if (!good(element)) problems.push(`not drawn: ${element.outerHTML.slice(0, 120)}`);
    return found.length;
  };
  const isLoaded = (image) => image.complete && image.naturalWidth > 0 && hasBox(image);

  const finish = (counts) => {
    // Only a box that scrolls may hold something wider than itself.
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width)
      problems.push(`the page is ${document.documentElement.scrollWidth} wide, the window ${width}`);
    for (const element of all("body *")) {
      if (element.closest(".scroll, svg, head, script")) continue;
      const box = element.getBoundingClientRect();
      if (box.width > 0 && (box.right > width + 0.5 || box.left < -0.5))
        problems.push(`sticks out: ${element.outerHTML.slice(0, 120)}`);
    }
    // Contrast of text to its own or the next background above, as WCAG computes it. A canvas turns any CSS colour
    // into red, green and blue.
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const luminance = ([r, g, b]) => {
      const linear = [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
      return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const backgroundOf = (element) => {
      for (let e = element; e; e = e.parentElement) {
        const colour = rgba(getComputedStyle(e).backgroundColor);
        if (colour[3] > 0) return colour;
      }
      return rgba(getComputedStyle(document.documentElement).getPropertyValue("--page"));
    };
    let lowest = 21;
    for (const element of all("body *")) {
      const style = getComputedStyle(element);
      const ownText = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
      if (!ownText || !hasBox(element) || element.closest("script, title")) continue;
      const ink = rgba(element.closest("svg") ? style.fill : style.color);
      if (ink[3] === 0) continue;
      const [light, dark] = [luminance(ink), luminance(backgroundOf(element))].sort((a, b) => b - a);
      const contrast = (light + 0.05) / (dark + 0.05);
      lowest = Math.min(lowest, contrast);
      if (contrast < 4.5) problems.push(`contrast ${contrast.toFixed(1)}: ${element.outerHTML.slice(0, 120)}`);
    }
    counts.contrast = lowest.toFixed(1);

    const page = rgba(getComputedStyle(document.body).backgroundColor);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    if (luminance(page) < 0.5 !== dark) problems.push(`a ${dark ? "dark" : "light"} page has the colour ${page}`);
    return { ...counts, problems };
  };
  window.look = { problems, all, require, isLoaded, finish };
})();
