// Runs in the page of a profile; its value says what is drawn and what is wrong with it.
(() => {
  const { problems, all, require, finish } = window.look;
  const counts = {
    numbers: require("#numbers dd", 6),
    advice: require("#advice li", 1),
    layers: require("#layers tr", 4),
    kernels: require("#kernels tr", 4),
    circles: require("#roofline circle", 1),
    idle: require("#idle tr", 3),
    stacks: require("#compiled .stack i", 6),
    blocks: require("#blocks rect", 4),
  };
  // The timeline is one picture: it has colours of its phases, and a click names what it hits.
  const canvas = document.querySelector("#timeline");
  require("#timeline", 1);
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 0) colours.add((pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2]);
  counts.colours = colours.size;
  if (colours.size < 6) problems.push(`the timeline has ${colours.size} colours`);
  const kernel = boxes.find((b) => b.sender);
  if (!kernel) problems.push("the timeline has no kernels of a device");
  else {
    const x = ((kernel.begin + kernel.end) / 2 - from) / (to - from) * canvas.clientWidth, y = kernel.row * rowH + 22 + rowH / 2;
    const box = canvas.getBoundingClientRect();
    for (const type of ["pointerdown", "pointerup"])
      canvas.dispatchEvent(new PointerEvent(type, { pointerId: 1, bubbles: true, clientX: box.left + x, clientY: box.top + y }));
    const said = document.querySelector("#about").textContent;
    if (!said.includes(kernel.name)) problems.push(`a click on ${kernel.name} says "${said}"`);
    if (chosen.length !== 1) problems.push(`a click on a kernel draws ${chosen.length} lines`);
    counts.said = said.slice(0, 40);
  }
  const share = parseFloat([...document.querySelectorAll("#numbers dt")].find((e) => e.textContent.includes("known")).nextSibling.textContent);
  if (!(share > 98)) problems.push(`known: ${share} %`);
  return finish(counts);
})();
