// Tables whose heads are buttons are sorted by a column: first downwards, then upwards.

// Compares two values of a column: numbers by value, text by the alphabet, and what is missing last.
function compareValues(one, other, down) {
  const lost = (value) => value === null || value === undefined || Number.isNaN(value);
  if (lost(one) || lost(other)) return lost(one) - lost(other);
  const order = typeof one === "string" ? one.localeCompare(other) : one < other ? -1 : +(one > other);
  return down ? -order : order;
}

// Marks the head by whose column a table is sorted, and returns whether downwards.
function markSorted(head) {
  const down = head.getAttribute("aria-sort") !== "descending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  return down;
}

function valueOf(cell) {
  return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
}

function makeSortable() {
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const column = Array.from(head.parentNode.children).indexOf(head);
      const body = head.closest("table").tBodies[0];
      const down = markSorted(head);
      const value = (row) => valueOf(row.children[column]);
      const rows = Array.from(body.rows).sort((a, b) => compareValues(value(a), value(b), down));
      body.append(...rows);
    });
  }
}
