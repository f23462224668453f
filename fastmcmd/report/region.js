// A region: rows of a group, and of a run of bins of a column or a rectangle of the map.
// { group: index or -1, axis: index, "map" or -1, from, to, low, high }; from and to are the first and the
// last bin; on the map they are across, and low and high are upwards.

function binsOf(data, region) {
  const run = (first, last) => Array.from({ length: last - first + 1 }, (_, index) => first + index);
  if (region.axis === "map") {
    const across = data.map.across.bins;
    return run(region.low, region.high).flatMap(
      (row) => run(region.from, region.to).map((column) => row * across + column));
  }
  if (region.axis < 0) return run(0, data.axes[0].bins - 1);
  return run(region.from, region.to);
}

function tableOf(data, region) {
  return region.axis === "map" ? data.map : data.axes[Math.max(region.axis, 0)];
}

// Returns the sums of the region and of all other rows.
function sumsOf(data, region) {
  const table = tableOf(data, region);
  const places = placesOf(table, binsOf(data, region), region.group, data.groups.length);
  return { region: addUp(table, places), others: addUp(table, otherPlaces(table, places)) };
}

function describeRun(axis, from, to) {
  const { name, texts, bins, discrete } = axis;
  if (discrete) {
    return from === to ? `${name} = ${texts[from]}` : `${name} from ${texts[from]} to ${texts[to]}`;
  }
  if (from === 0 && to === bins - 1) return `any ${name}`;
  if (from === 0) return `${name} < ${texts[to]}`;
  if (to === bins - 1) return `${name} ≥ ${texts[from - 1]}`;
  return `${texts[from - 1]} ≤ ${name} < ${texts[to]}`;
}

function describeRegion(data, region) {
  const parts = [];
  if (region.group >= 0) parts.push(`group ${data.groups[region.group]}`);
  if (region.axis === "map") {
    parts.push(describeRun(data.map.across, region.from, region.to));
    parts.push(describeRun(data.map.up, region.low, region.high));
  } else if (region.axis >= 0) {
    parts.push(describeRun(data.axes[region.axis], region.from, region.to));
  }
  return parts.length ? parts.join(" and ") : "all rows";
}

// Returns the indices of the listed rows that lie in the region.
function listedRows(data, region) {
  const { list } = data;
  const within = (bins, from, to, row) => bins[row] >= from && bins[row] <= to;
  return Array.from(list.groups.keys()).filter((row) => {
    if (region.group >= 0 && list.groups[row] !== region.group) return false;
    if (region.axis === "map") {
      return within(list.plane[0], region.from, region.to, row)
        && within(list.plane[1], region.low, region.high, row);
    }
    return region.axis < 0 || within(list.bins[region.axis], region.from, region.to, row);
  });
}
