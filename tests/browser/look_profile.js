// Runs in the page of a profile; its value says what is drawn and what is wrong with it.
(() => {
  const { problems, all, require, finish } = window.look;
  const counts = {
    numbers: require("#numbers dd", traced ? 6 : 4),
    advice: require("#advice li", 1),
    layers: require("#layers tr", 4),
    held: require("#layers td.held", 4),
    kernels: require("#kernels tr", 4),
    circles: require("#roofline circle", 1),
    stacks: require("#memory-section .stack i", 6, () => true),
  };
  if (traced) Object.assign(counts, { idle: require("#idle tr", 3), blocks: require("#blocks rect", 4) });
  if (P.memory.length) {
    counts.levels = require(".levels path.level", 2);
    const highest = Math.max(...P.memory[0].levels.rows.map((row) => row.slice(1).reduce((a, b) => a + b)));
    const { at, ...peak } = P.memory[0].peak;
    if (highest !== Object.values(peak).reduce((a, b) => a + b)) problems.push(`memory over the step reaches ${highest}, its peak ${JSON.stringify(peak)}`);
  }
  if (!P.memory.length || P.peak.total > 0) {
    const { total, holders, device, ...parts } = P.peak;
    if (total !== Object.values(parts).reduce((a, b) => a + b)) problems.push(`the peak is ${total}, its parts ${JSON.stringify(parts)}`);
  }
  // What is far from its floor: by what is lost, and with what bounds it.
  const far = all("#far tr").slice(1).map((row) => [...row.cells].map((cell) => cell.textContent));
  counts.far = far.length;
  if (P.peaks.length && !far.length && !document.querySelector("#far-none").textContent) problems.push("nothing is said of what is far from its floor");
  const lost = (text) => parseFloat(text) * { s: 1e9, ms: 1e6, "µs": 1e3 }[text.split(" ")[1]];
  far.forEach((row, i) => {
    if (!["memory", "arithmetic"].includes(row[5])) problems.push(`${row[0]} is bound by "${row[5]}"`);
    if (!(parseFloat(row[4]) <= 50)) problems.push(`${row[0]} reaches ${row[4]} % of its floor`);
    if (i > 0 && lost(far[i - 1][2]) < lost(row[2])) problems.push(`${row[0]} loses more than the one above`);
  });
  // The timeline is one picture: it has colours of its phases, and a click names what it hits.
  const canvas = document.querySelector("#timeline");
  require("#timeline", 1);
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 0) colours.add((pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2]);
  counts.colours = colours.size;
  if (colours.size < 6) problems.push(`the timeline has ${colours.size} colours`);
  const longest = (boxes) => boxes.reduce((a, b) => (b.end - b.begin > a.end - a.begin ? b : a));
  const done = boxes.filter((b) => traced ? b.sender : b.self !== undefined);
  if (!done.length) problems.push("the timeline has no kernels");
  else {
    const kernel = traced ? done[0] : longest(done);
    const x = ((kernel.begin + kernel.end) / 2 - from) / (to - from) * canvas.clientWidth, y = kernel.row * rowH + 22 + rowH / 2;
    const box = canvas.getBoundingClientRect();
    for (const type of ["pointerdown", "pointerup"])
      canvas.dispatchEvent(new PointerEvent(type, { pointerId: 1, bubbles: true, clientX: box.left + x, clientY: box.top + y }));
    const said = document.querySelector("#about").textContent;
    if (!said.includes(kernel.name)) problems.push(`a click on ${kernel.name} says "${said}"`);
    if (traced && chosen.length !== 1) problems.push(`a click on a kernel draws ${chosen.length} lines`);
    counts.said = said.slice(0, 40);
  }
  // The profile that is made by hand has a fault of each kind.
  if (P.facts.GPU === "a <GPU>") {
    const said = all("#advice li").map((line) => line.textContent);
    for (const text of ["Waiting for data: cuda:0 is idle", "The host waits for the device", "Copies to another layout", "sort runs by its reference kernel"])
      if (!said.some((line) => line.includes(text))) problems.push(`no advice says "${text}": ${said.join(" / ")}`);
  }
  if (traced) {
    const share = parseFloat([...document.querySelectorAll("#numbers dt")].find((e) => e.textContent.includes("known")).nextSibling.textContent);
    if (!(share > 98)) problems.push(`known: ${share} %`);
  }
  return finish(counts);
})();
