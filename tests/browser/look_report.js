// Runs in the page of a run; its value says what is drawn and what is wrong with it.
(() => {
  const { problems, all, require, isLoaded, finish } = window.look;
  const counts = {
    charts: require(".chart svg", 4),
    lines: require(".chart path.line", 5),
    cells: require(".confusion tbody td:not(.share)", 4),
    pictures: require(".pictures img", 1, isLoaded),
    filters: require(".filters img", 1, isLoaded),
    numbers: require(".numbers .value", 4),
  };
  require("#command code", 1);
  require("#command button", 1);
  require("#machine td", 1);
  require("#epochs td", 1);

  // A diagonal of the right colour, and images that are not one colour.
  const diagonal = all(".confusion tbody tr").map((row, i) => row.cells[i + 1]);
  if (!diagonal.every((cell) => /right|none/.test(cell.className))) problems.push("diagonal");
  const matrix = document.querySelector(".confusion");
  counts.matrix = `${Math.round(matrix.getBoundingClientRect().width)} px`;
  return finish(counts);
})();
