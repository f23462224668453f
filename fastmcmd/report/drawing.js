// Elements, numbers as text, and axes of charts. Colours come from classes of the style sheet.

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function shape(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Returns a number with four digits; thousands of rows are counted with commas.
function numberText(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return String(Number(value.toPrecision(4)));
}

// Returns round numbers between two ends.
function ticksOf(low, high, count) {
  const power = 10 ** Math.floor(Math.log10((high - low) / count));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => (high - low) / one <= count);
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index += 1) {
    ticks.push(Number((index * step).toPrecision(12)));
  }
  return ticks;
}

// Returns an empty chart with axes: its SVG element, and the scales from data to pixels. `names` are the
// texts of the values 0, 1, 2 and so on of x.
function chart({ label, x, y, xLabel, yLabel, names = null, width = 360, height = 240 }) {
  const edge = { left: 48, right: 8, top: 8, bottom: 40 };
  const scale = (ends, from, to) => (value) => from + ((value - ends[0]) / (ends[1] - ends[0])) * (to - from);
  const sx = scale(x, edge.left, width - edge.right);
  const sy = scale(y, height - edge.bottom, edge.top);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const every = names ? Math.ceil((names.length * Math.max(...names.map((one) => one.length + 2))) / 55) : 1;
  const ticks = names ? names.map((_, place) => place).filter((place) => place % every === 0) : ticksOf(...x, 6);
  for (const tick of ticks) {
    svg.append(shape("text", { x: sx(tick), y: height - edge.bottom + 16, class: "tick middle" },
      names ? names[tick] : numberText(tick)));
  }
  for (const tick of ticksOf(...y, 5)) {
    svg.append(shape("text", { x: edge.left - 6, y: sy(tick) + 4, class: "tick end" }, numberText(tick)));
    svg.append(shape("line", {
      x1: edge.left, x2: width - edge.right, y1: sy(tick), y2: sy(tick), class: "grid" }));
  }
  svg.append(shape("text", {
    x: (edge.left + width - edge.right) / 2, y: height - 6, class: "name middle" }, xLabel));
  const middle = (edge.top + height - edge.bottom) / 2;
  svg.append(shape("text", {
    x: 11, y: middle, class: "name middle", transform: `rotate(-90 11 ${middle})` }, yLabel));
  return { svg, sx, sy };
}

// Returns the path through points.
function pathOf(points, sx, sy) {
  return points.map(([x, y], index) => `${index ? "L" : "M"}${sx(x).toFixed(1)} ${sy(y).toFixed(1)}`).join("");
}

// Returns the outline of bars between edges, or of a band between two such lines.
function stepsOf(edges, heights) {
  return heights.flatMap((height, index) => [[edges[index], height], [edges[index + 1], height]]);
}

function bandOf(lower, upper, sx, sy) {
  return `${pathOf([...upper, ...lower.slice().reverse()], sx, sy)}Z`;
}
