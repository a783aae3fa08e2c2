"use strict";
// When charts are drawn: near the window at once, the others while the browser is idle, all for paper.
const drawLater = (() => {
  const PAPER = 680; // pixels that a sheet of A4 or Letter has between its margins
  const MOST = 60; // folded rows of a table that are printed
  const waiting = new Map();
  const done = (node) => {
    const task = waiting.get(node);
    waiting.delete(node);
    near.unobserve(node);
    task();
  };
  const near = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) if (isIntersecting && waiting.has(target)) done(target);
  }, { rootMargin: "600px" });
  const idle = window.requestIdleCallback ? (task) => requestIdleCallback(task, { timeout: 300 }) : (task) => setTimeout(task, 30);
  const rest = () => {
    const end = performance.now() + 30;
    while (waiting.size && performance.now() < end) done(waiting.keys().next().value);
    if (waiting.size) idle(rest);
  };
  const drawLater = (node, task) => {
    if (!waiting.size && document.readyState === "complete") idle(rest);
    waiting.set(node, task);
    near.observe(node);
  };
  addEventListener("load", () => idle(rest));

  // A table with more columns than a sheet holds is printed smaller.
  const shrunk = () => {
    const tables = [...document.querySelectorAll(".wide > table")];
    for (const table of tables) table.classList.add("measured");
    const wide = tables.map((table) => table.offsetWidth);
    tables.forEach((table, i) => {
      table.classList.remove("measured");
      if (wide[i] > PAPER) table.style.zoom = PAPER / wide[i];
    });
    return tables;
  };
  let opened = null, small = [];
  const begin = () => {
    if (opened) return;
    opened = [...document.querySelectorAll(".table > details:not([open])")].filter((folded) => folded.querySelectorAll("tr").length <= MOST + 1);
    for (const folded of opened) folded.open = true;
    while (waiting.size) done(waiting.keys().next().value);
    small = shrunk();
    drawChart.anew(PAPER);
  };
  const end = () => {
    if (!opened) return;
    for (const folded of opened) folded.open = false;
    for (const table of small) table.style.zoom = "";
    opened = null;
    drawChart.anew();
  };
  addEventListener("beforeprint", begin);
  addEventListener("afterprint", end);
  matchMedia("print").addEventListener("change", ({ matches }) => (matches ? begin() : end()));
  return drawLater;
})();
