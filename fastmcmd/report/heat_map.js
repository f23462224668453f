// The map of two inputs: the mean value in each cell of a grid. A drag, or the arrow keys, choose cells.

const MAP_SIZE = { width: 300, height: 260, left: 44, right: 8, top: 8, bottom: 40 };
const SHADES = 8; // of the colour scale, classes q0 to q7

// Returns the mean values of a model in each cell of a group; NaN where there is no row.
function cellMeans(data, group, model, quantity) {
  const table = data.map;
  return Array.from({ length: table.binCount }, (_, bin) => {
    const sums = addUp(table, placesOf(table, [bin], group, data.groups.length));
    return numbersOf(data.quantities, sums.models[model].sums, sums.weight)[quantity];
  });
}

function shadeOf(value, [low, high]) {
  const share = high > low ? (value - low) / (high - low) : 0;
  return Math.min(SHADES - 1, Math.max(0, Math.floor(share * SHADES)));
}

function mapScales(data) {
  const { width, height, left, right, top, bottom } = MAP_SIZE;
  const { across, up } = data.map;
  return {
    sx: (edge) => left + (edge / across.bins) * (width - left - right),
    sy: (edge) => height - bottom - (edge / up.bins) * (height - top - bottom),
  };
}

// Cells in which `few` is at least one half have grey: no other rows support their mean.
function drawMap(data, means, few, ends, region) {
  const { width, height, left, bottom, top } = MAP_SIZE;
  const { across, up } = data.map;
  const { sx, sy } = mapScales(data);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  means.forEach((mean, index) => {
    if (Number.isNaN(mean)) return;
    const [column, row] = [index % across.bins, Math.floor(index / across.bins)];
    svg.append(shape("rect", {
      x: sx(column), y: sy(row + 1), width: sx(column + 1) - sx(column), height: sy(row) - sy(row + 1),
      class: few[index] >= 0.5 ? "few" : `q${shadeOf(mean, ends)}` }));
  });
  if (region.axis === "map") {
    svg.append(shape("rect", {
      x: sx(region.from), y: sy(region.high + 1), width: sx(region.to + 1) - sx(region.from),
      height: sy(region.low) - sy(region.high + 1), class: "frame" }));
  }
  const labels = (axis, draw) => {
    const every = Math.ceil(axis.texts.length / 5);
    axis.texts.forEach((text, index) => {
      if (index % every === 0) draw(index + (axis.discrete ? 0.5 : 1), text);
    });
  };
  labels(across, (edge, text) => svg.append(
    shape("text", { x: sx(edge), y: height - bottom + 14, class: "tick middle" }, text)));
  labels(up, (edge, text) => svg.append(
    shape("text", { x: left - 4, y: sy(edge) + 4, class: "tick end" }, text)));
  svg.append(shape("text", { x: (left + width) / 2, y: height - 6, class: "name middle" }, across.name));
  const middle = (top + height - bottom) / 2;
  svg.append(shape("text", {
    x: 10, y: middle, class: "name middle", transform: `rotate(-90 10 ${middle})` }, up.name));
  return svg;
}

// Returns the legend of the colours.
function drawShades([low, high], label, hasFew) {
  const svg = shape("svg", { viewBox: "0 0 300 34", role: "img", "aria-label": `Colours of ${label}` });
  if (hasFew) {
    svg.append(shape("rect", { x: 214, y: 17, width: 20, height: 10, class: "few" }));
    svg.append(shape("text", { x: 238, y: 26, class: "tick" }, "few rows"));
  }
  for (let shade = 0; shade < SHADES; shade += 1) {
    svg.append(shape("rect", { x: 44 + shade * 20, y: 2, width: 20, height: 10, class: `q${shade}` }));
  }
  svg.append(shape("text", { x: 44, y: 26, class: "tick" }, numberText(low)));
  svg.append(shape("text", { x: 204, y: 26, class: "tick end" }, numberText(high)));
  svg.append(shape("text", { x: 212, y: 12, class: "tick" }, label));
  return svg;
}

// Makes an element choose rectangles: `choose({ from, to, low, high })`, or `choose(null)`.
function brushCells(node, data, current, choose) {
  const { across, up } = data.map;
  const clamp = (value, count) => Math.min(Math.max(value, 0), count - 1);
  let start = null;
  const cellAt = (event) => {
    const { width, height, left, right, top, bottom } = MAP_SIZE;
    const box = node.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width;
    const y = ((event.clientY - box.top) / box.height) * height;
    return [
      clamp(Math.floor(((x - left) / (width - left - right)) * across.bins), across.bins),
      clamp(Math.floor(((height - bottom - y) / (height - top - bottom)) * up.bins), up.bins),
    ];
  };
  const chooseTo = (end) => choose({
    from: Math.min(start[0], end[0]), to: Math.max(start[0], end[0]),
    low: Math.min(start[1], end[1]), high: Math.max(start[1], end[1]) });
  node.addEventListener("pointerdown", (event) => {
    start = cellAt(event);
    node.setPointerCapture(event.pointerId);
    chooseTo(start);
  });
  node.addEventListener("pointermove", (event) => { if (start) chooseTo(cellAt(event)); });
  for (const name of ["pointerup", "pointercancel"]) {
    node.addEventListener(name, () => { start = null; });
  }
  node.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const step = steps[event.key];
    const cells = current();
    if (event.key === "Escape") choose(null);
    else if (!step) return;
    else if (!cells) choose({ from: 0, to: 0, low: 0, high: 0 });
    else if (event.shiftKey) {
      const to = Math.max(cells.from, clamp(cells.to + step[0], across.bins));
      choose({ ...cells, to, high: Math.max(cells.low, clamp(cells.high + step[1], up.bins)) });
    } else {
      const fits = cells.from + step[0] >= 0 && cells.to + step[0] < across.bins
        && cells.low + step[1] >= 0 && cells.high + step[1] < up.bins;
      if (fits) {
        choose({ from: cells.from + step[0], to: cells.to + step[0],
          low: cells.low + step[1], high: cells.high + step[1] });
      }
    }
    event.preventDefault();
  });
}
