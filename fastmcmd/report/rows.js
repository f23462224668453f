// The list of rows: those of the region, sorted by a column, under conditions.

const SHOWN_ROWS = 15;

// Returns the list's element and a function that shows the rows of a region.
function makeRowList(data) {
  const { columns } = data.list;
  const state = { rows: [], column: columns.findIndex((one) => one.name !== "row" && one.name !== "label"
    && one.name !== "group"), down: true, most: SHOWN_ROWS };
  const head = element("tr");
  const body = element("tbody");
  const status = element("p", { class: "how", "aria-live": "polite" });
  const filter = element("input", {
    type: "text", id: "row-filter", placeholder: `${columns[state.column].name} > 0.1`, autocomplete: "off",
    "aria-describedby": "row-filter-status" });
  const problem = element("span", { id: "row-filter-status", class: "problem", role: "status" });
  const more = element("button", { type: "button", class: "control" }, "Show more rows");

  const isWord = (column) => column.values.some(
    (value) => typeof value === "string" && Number.isNaN(Number(value)));
  columns.forEach((column, index) => {
    const button = element("button", { type: "button" }, column.name);
    const cell = element("th", { scope: "col", ...(isWord(column) ? { class: "word" } : {}) }, button);
    button.addEventListener("click", () => {
      state.down = markSorted(cell);
      state.column = index;
      state.most = SHOWN_ROWS;
      draw();
    });
    head.append(cell);
  });
  head.children[state.column].setAttribute("aria-sort", "descending");

  const textOf = (value) => (typeof value === "string" && Number.isNaN(Number(value))
    ? value : numberText(value === null ? NaN : Number(value)));

  function draw() {
    const { test, error } = parseFilter(filter.value, columns);
    problem.textContent = error;
    const values = columns[state.column].values.map(
      (value) => (typeof value === "string" && !Number.isNaN(Number(value)) ? Number(value) : value));
    const rows = state.rows.filter(test).sort((a, b) => compareValues(values[a], values[b], state.down));
    body.replaceChildren(...rows.slice(0, state.most).map((row) => element("tr", {},
      ...columns.map((column) => element(
        "td", isWord(column) ? { class: "word" } : {}, textOf(column.values[row]))))));
    more.hidden = rows.length <= state.most;
    const shown = Math.min(rows.length, state.most);
    status.textContent = `${numberText(shown)} of ${numberText(rows.length)} rows shown. ${state.note}`;
  }

  filter.addEventListener("input", () => { state.most = SHOWN_ROWS; draw(); });
  more.addEventListener("click", () => { state.most *= 2; draw(); });

  const label = element("label", { for: "row-filter" }, "Rows with ");
  const node = element("div", {},
    element("p", {}, label, filter, " ", problem),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows of the region" },
      element("table", {}, element("thead", {}, head), body)),
    status, more);

  // What the list holds of the region: all of its rows, or the worst and some others.
  function noteOf(region, rowCount) {
    const { worst, by } = data.list;
    if (worst === null) return "";
    const held = `The page holds ${numberText(state.rows.length)} of the ${numberText(rowCount)} rows in this region`;
    return region.axis === "map" || worst === 0
      ? `${held}: bad ones, and some drawn at random.`
      : `${held}: the ${worst} worst by ${by} are among them, the others are bad elsewhere or drawn at random.`;
  }

  function update(region, rowCount) {
    state.rows = listedRows(data, region);
    state.most = SHOWN_ROWS;
    state.note = noteOf(region, rowCount);
    draw();
  }
  return { node, update };
}
