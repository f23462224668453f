// Arrays of the page's data: base64 of little-endian numbers.

const ARRAY_TYPES = {
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array,
};

function decodeArray(packed) {
  const bytes = Uint8Array.from(atob(packed.data), (letter) => letter.charCodeAt(0));
  return new ARRAY_TYPES[packed.type](bytes.buffer);
}

// Returns the sums of an axis or of the map with arrays in place of text, and where each cell's sums are.
function decodeTable(packed, cellCount) {
  const optional = (one) => (one ? decodeArray(one) : null);
  const cells = decodeArray(packed.cells);
  const place = new Int32Array(cellCount).fill(-1);
  cells.forEach((cell, index) => { place[cell] = index; });
  const rows = decodeArray(packed.rows);
  return {
    ...packed, place, rows,
    size: cells.length,
    weights: packed.weights ? decodeArray(packed.weights) : rows,
    witnessRows: decodeArray(packed.witnessRows),
    models: packed.models.map((one) => ({
      sums: decodeArray(one.sums),
      pit: optional(one.pit),
      classes: optional(one.classes),
      witness: optional(one.witness),
    })),
  };
}

// Returns the data with all arrays decoded. `binCount` is the number of cells of one group.
function decodeData(packed) {
  const groups = packed.groups.length;
  const axes = packed.axes.map(
    (axis) => ({ ...decodeTable(axis, groups * axis.bins), binCount: axis.bins }));
  let map = null;
  if (packed.map) {
    const binCount = packed.map.across.bins * packed.map.up.bins;
    map = { ...decodeTable(packed.map, groups * binCount), binCount };
  }
  let list = null;
  if (packed.list) {
    list = {
      ...packed.list,
      groups: decodeArray(packed.list.groups),
      bins: packed.list.bins.map(decodeArray),
      plane: packed.list.plane.map(decodeArray),
    };
  }
  return { ...packed, axes, map, list };
}
