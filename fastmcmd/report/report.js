"use strict";
// Tables whose heads are buttons are sorted by a column: first downwards, then upwards.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const table = head.closest("table");
    const column = Array.from(head.parentNode.children).indexOf(head);
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    // Numbers by their value, everything else as text; NaN comes last either way.
    const compare = (one, other) => {
      const [a, b] = [one.children[column], other.children[column]];
      if (a.dataset.value === undefined) return a.textContent.localeCompare(b.textContent);
      return Number(a.dataset.value) - Number(b.dataset.value);
    };
    const lost = (row) => row.children[column].dataset.value === "nan";
    const rows = Array.from(body.rows).sort((a, b) =>
      lost(a) || lost(b) ? lost(a) - lost(b) : down ? compare(b, a) : compare(a, b));
    for (const row of rows) body.append(row);
  });
}
