// The curves of a region: PIT, reliability, witness. Grey dashes are all rows, bands a calibrated model.

const BAND_LEVEL = 0.95;
const LEAST_VARIANCE = 5; // of hits in a bin, from which their number is about normal
const NORMAL_QUANTILE = 1.959964;

const evenEdges = (count) => Array.from({ length: count + 1 }, (_, index) => index / count);

// Returns densities of the PIT in half as many bars as there are counts.
function pitHeights(counts, weight) {
  const bars = counts.length / 2;
  return Array.from(
    { length: bars }, (_, bar) => ((counts[2 * bar] + counts[2 * bar + 1]) / weight) * bars);
}

// All models share the scale of densities.
function drawPit(data, sums, all, model, withBand) {
  const densities = (one) => one.models.map(({ pit }) => pitHeights(pit, one.weight));
  const [inside, overalls] = [densities(sums), densities(all)];
  const [heights, overall] = [inside[model], overalls[model]];
  const bars = heights.length;
  const edges = evenEdges(bars);
  const band = withBand
    ? binomialInterval(sums.rows, 1 / bars, BAND_LEVEL).map((count) => (count / sums.rows) * bars) : null;
  const top = 1.08 * Math.max(...inside.flat(), ...overalls.flat(), band ? Math.min(band[1], 4) : 0, 1.2);
  const { svg, sx, sy } = chart({
    label: "Histogram of the PIT in the region", x: [0, 1], y: [0, top], xLabel: "PIT", yLabel: "density" });
  if (band) {
    const level = (height) => stepsOf([0, 1], [Math.min(height, top)]);
    svg.append(shape("path", { d: bandOf(level(band[0]), level(band[1]), sx, sy), class: "band" }));
  }
  const floor = edges.map((edge) => [edge, 0]);
  svg.append(shape("path", { d: bandOf(floor, stepsOf(edges, heights), sx, sy), class: `area f${model % 6}` }));
  svg.append(shape("path", { d: pathOf(stepsOf(edges, overall), sx, sy), class: "line overall" }));
  svg.append(shape("path", { d: pathOf([[0, 1], [1, 1]], sx, sy), class: "line ideal" }));
  return svg;
}

// Returns the share of PIT values up to each level, from 0 to 1.
function cumulativeShares(counts, weight) {
  let sum = 0;
  return [0, ...Array.from(counts, (count) => { sum += count; return sum / weight; })];
}

function drawReliability(data, sums, all, withBand) {
  const { svg, sx, sy } = chart({
    label: "Reliability in the region", x: [0, 1], y: [0, 1], xLabel: "expected share",
    yLabel: "share below the quantile" });
  const levels = evenEdges(data.levels);
  const points = (counts, weight) => cumulativeShares(counts, weight).map((share, k) => [levels[k], share]);
  if (withBand) {
    const ends = levels.map((level) => binomialInterval(sums.rows, level, BAND_LEVEL));
    const side = (end) => ends.map((pair, k) => [levels[k], pair[end] / sums.rows]);
    svg.append(shape("path", { d: bandOf(side(0), side(1), sx, sy), class: "band" }));
  }
  svg.append(shape("path", { d: pathOf([[0, 0], [1, 1]], sx, sy), class: "line ideal" }));
  sums.models.forEach((one, model) => {
    if (sums.models.length === 1) {
      const overall = points(all.models[model].pit, all.weight);
      svg.append(shape("path", { d: pathOf(overall, sx, sy), class: "line overall" }));
    }
    svg.append(shape("path", { d: pathOf(points(one.pit, sums.weight), sx, sy), class: `line c${model % 6}` }));
  });
  return svg;
}

// Returns [confidence, accuracy, half width of a calibrated model's 95 % or null] of each bin with rows.
function classPoints(values, withBand) {
  const points = [];
  for (let bin = 0; bin < values.length / 4; bin += 1) {
    const [weight, hits, confidence, variance] = values.slice(4 * bin, 4 * bin + 4);
    if (weight > 0) {
      const known = withBand && variance >= LEAST_VARIANCE;
      const half = known ? (NORMAL_QUANTILE * Math.sqrt(variance)) / weight : null;
      points.push([confidence / weight, hits / weight, half]);
    }
  }
  return points;
}

function drawClassReliability(data, sums, all, withBand) {
  const { svg, sx, sy } = chart({
    label: "Frequency and probability in the region", x: [0, 1], y: [0, 1],
    xLabel: "probability of the likeliest class", yLabel: "how often it is right" });
  svg.append(shape("path", { d: pathOf([[0, 0], [1, 1]], sx, sy), class: "line ideal" }));
  sums.models.forEach((one, model) => {
    const points = classPoints(Array.from(one.classes), withBand);
    for (const [x, y, half] of points) {
      if (half !== null) {
        const ends = [Math.max(0, x - half), Math.min(1, x + half)];
        svg.append(shape("line", { x1: sx(x), x2: sx(x), y1: sy(ends[0]), y2: sy(ends[1]), class: "bar" }));
      }
      svg.append(shape("circle", { cx: sx(x), cy: sy(y), r: 4, class: `dot f${model % 6}` }));
    }
    svg.append(shape("path", { d: pathOf(points, sx, sy), class: `line c${model % 6}` }));
  });
  return svg;
}

function drawWitness(data, sums, all) {
  const mean = (one, rows) => Array.from(one.witness, (sum) => sum / rows);
  const curves = sums.models.map((one) => mean(one, sums.witnessRows));
  const overall = all.models.map((one) => mean(one, all.witnessRows));
  const values = [...curves, ...(curves.length === 1 ? overall : [])].flat();
  const reach = 1.1 * Math.max(...values.map(Math.abs), 1e-12);
  const isClasses = data.classes.length > 0;
  const margin = isClasses ? 0.5 : 0;
  const x = [data.outcomes[0] - margin, data.outcomes[data.outcomes.length - 1] + margin];
  const { svg, sx, sy } = chart({
    label: "Mean witness in the region", x, y: [-reach, reach], names: isClasses ? data.classes : null,
    xLabel: isClasses ? "class" : "outcome y", yLabel: "mean witness" });
  const points = (curve) => curve.map((value, index) => [data.outcomes[index], value]);
  svg.append(shape("path", { d: pathOf([[x[0], 0], [x[1], 0]], sx, sy), class: "line ideal" }));
  if (curves.length === 1 && !isClasses) {
    svg.append(shape("path", { d: pathOf(points(overall[0]), sx, sy), class: "line overall" }));
  }
  curves.forEach((curve, model) => {
    if (!isClasses) {
      svg.append(shape("path", { d: pathOf(points(curve), sx, sy), class: `line c${model % 6}` }));
    }
    for (const [place, value] of isClasses ? points(curve) : []) {
      const shift = sx(place) + 4 * (model - (curves.length - 1) / 2);
      svg.append(shape("line", { x1: shift, x2: shift, y1: sy(0), y2: sy(value), class: `line c${model % 6}` }));
      svg.append(shape("circle", { cx: shift, cy: sy(value), r: 3, class: `dot f${model % 6}` }));
    }
  });
  return svg;
}
