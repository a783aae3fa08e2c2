"use strict";
// Sorts a table by a click on a heading: numbers by their size, the rest as words.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const [heads, rows] = [[...table.tHead.rows[0].cells], [...body.rows]];
  const keyOf = (row, place) => {
    const text = row.cells[place].textContent.trim();
    const number = /^\$?[\d,]+(\.\d+)?(\s\+ \?)?$/.test(text) ? parseFloat(text.replace(/[$,]/g, "")) : NaN;
    return { text, number };
  };
  const before = (one, other) => {
    if (Number.isNaN(one.number) !== Number.isNaN(other.number)) return Number.isNaN(one.number) ? 1 : -1;
    return one.number - other.number || one.text.localeCompare(other.text, "en", { numeric: true });
  };
  heads.forEach((head, place) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: head.textContent, title: "sort" });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.ariaSort !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "ascending" : "descending");
      const keys = new Map(rows.map((row) => [row, keyOf(row, place)]));
      body.append(...rows.sort((a, b) => (down ? 1 : -1) * before(keys.get(a), keys.get(b))));
    });
  });
}
