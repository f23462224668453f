// Histograms of all columns: a drag, or the arrow keys, choose a run of bins.

const LETTERS = 34; // below a histogram
const SIDEWAYS = 6; // pixels by which a finger moves before it chooses
const COLUMN_SIZE = { width: 240, height: 104, left: 6, right: 6, top: 8, bottom: 20 };

// Returns the rows and, for each model, the mean value in each bin of a group.
function binMeans(data, axis, group, quantity) {
  const table = data.axes[axis];
  return Array.from({ length: table.binCount }, (_, bin) => {
    const sums = addUp(table, placesOf(table, [bin], group, data.groups.length));
    const numbers = sums.models.map((one) => numbersOf(data.quantities, one.sums, sums.weight));
    return {
      rows: sums.rows,
      means: numbers.map((one) => one[quantity]),
      few: numbers.map((one) => data.followed.few >= 0 && one[data.followed.few] >= 0.5),
    };
  });
}

// Draws the histogram of a column; `top` is the largest mean of all columns, which share a scale.
function drawColumn(data, axis, bins, region, top) {
  const { width, height, left, right, bottom } = COLUMN_SIZE;
  const floor = height - bottom;
  const sx = (edge) => left + (edge / bins.length) * (width - left - right);
  const most = Math.max(...bins.map((bin) => bin.rows), 1);
  const sy = (share) => floor - share * (floor - COLUMN_SIZE.top);
  const { name, texts, discrete } = data.axes[axis];
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  bins.forEach((bin, index) => {
    const inside = region.axis === axis && index >= region.from && index <= region.to;
    if (inside) {
      svg.append(shape("rect", {
        x: sx(index), width: sx(index + 1) - sx(index), y: 0, height: floor, class: "chosen" }));
    }
    const top = sy(bin.rows / most);
    svg.append(shape("rect", {
      x: sx(index) + 0.5, width: Math.max(sx(index + 1) - sx(index) - 1, 0.5), y: top,
      height: Math.max(floor - top, bin.rows ? 1 : 0), class: inside ? "rows inside" : "rows" }));
  });
  data.models.forEach((_, model) => {
    const points = bins.map((bin, index) => [index + 0.5, bin.means[model] / top, bin.few[model]])
      .filter(([, y]) => Number.isFinite(y));
    svg.append(shape("path", { d: pathOf(points, sx, sy), class: `line c${model % 6}` }));
    for (const [x, y, few] of points) {
      svg.append(shape("circle", { cx: sx(x), cy: sy(y), r: 2, class: few ? "few" : `dot f${model % 6}` }));
    }
  });
  // Values stand under their bins, edges between them.
  const shift = discrete ? 0.5 : 1;
  const letters = Math.max(...texts.map((text) => text.length));
  const every = Math.max(1, Math.ceil(texts.length / 5), Math.ceil((letters * texts.length) / LETTERS));
  texts.forEach((text, index) => {
    if (index % every) return;
    const x = sx(index + shift);
    const half = 2.8 * text.length; // a digit is about 5.6 wide
    const anchor = x < half ? "" : x > width - half ? " end" : " middle";
    const at = anchor === "" ? 1 : anchor === " end" ? width - 1 : x;
    svg.append(shape("text", { x: at, y: height - 6, class: `tick${anchor}` }, text));
  });
  svg.append(shape("title", {}, name));
  return svg;
}

// Makes an element choose runs of bins: `choose(from, to)`, or `choose(null)` for none.
function brushRuns(node, count, current, choose) {
  const { width, left, right } = COLUMN_SIZE;
  let start = null;
  const binAt = (event) => {
    const box = node.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width;
    const bin = Math.floor(((x - left) / (width - left - right)) * count);
    return Math.min(Math.max(bin, 0), count - 1);
  };
  // A finger that moves up or down scrolls the page: it chooses once it moves sideways, or taps.
  node.addEventListener("pointerdown", (event) => {
    start = { bin: binAt(event), x: event.clientX, chooses: event.pointerType !== "touch" };
    node.setPointerCapture(event.pointerId);
    if (start.chooses) choose(start.bin, start.bin);
  });
  const chooseTo = (event) => {
    const end = binAt(event);
    choose(Math.min(start.bin, end), Math.max(start.bin, end));
  };
  node.addEventListener("pointermove", (event) => {
    if (!start) return;
    start.chooses ||= Math.abs(event.clientX - start.x) > SIDEWAYS;
    if (start.chooses) chooseTo(event);
  });
  node.addEventListener("pointerup", (event) => {
    if (start) chooseTo(event);
    start = null;
  });
  node.addEventListener("pointercancel", () => { start = null; });
  node.addEventListener("keydown", (event) => {
    const run = current();
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") choose(null);
    else if (event.key === "Home") choose(0, 0);
    else if (event.key === "End") choose(count - 1, count - 1);
    else if (!step) return;
    else if (!run) choose(step > 0 ? 0 : count - 1, step > 0 ? 0 : count - 1);
    else if (event.shiftKey) {
      const to = Math.min(Math.max(run[1] + step, run[0]), count - 1);
      choose(run[0], to);
    } else if (run[0] + step >= 0 && run[1] + step < count) choose(run[0] + step, run[1] + step);
    event.preventDefault();
  });
}
