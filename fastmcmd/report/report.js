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
    const key = (row) => Number(row.children[column].dataset.value);
    const rows = Array.from(body.rows).sort((a, b) => (down ? key(b) - key(a) : key(a) - key(b)));
    for (const row of rows) body.append(row);
  });
}
