// Adds the sums of cells: the numbers of a region are those of exactly its rows.

// Returns where the sums of some bins are, in one group or, with group -1, in all.
function placesOf(table, bins, group, groupCount) {
  const places = [];
  const groups = group < 0 ? Array.from({ length: groupCount }, (_, index) => index) : [group];
  for (const one of groups) {
    for (const bin of bins) {
      const place = table.place[one * table.binCount + bin];
      if (place >= 0) places.push(place);
    }
  }
  return places;
}

// Returns all other places.
function otherPlaces(table, places) {
  const chosen = new Set(places);
  return Array.from({ length: table.size }, (_, index) => index).filter((index) => !chosen.has(index));
}

function addRows(values, width, places) {
  const sums = new Float64Array(width);
  for (const place of places) {
    for (let column = 0; column < width; column += 1) sums[column] += values[place * width + column];
  }
  return sums;
}

// Returns the sums over places: rows, weight, and for each model its sums, PIT counts and witness.
function addUp(table, places) {
  const total = (values) => addRows(values, 1, places)[0];
  const of = (values) => (values ? addRows(values, values.length / table.size, places) : null);
  return {
    rows: total(table.rows),
    weight: total(table.weights),
    witnessRows: total(table.witnessRows),
    models: table.models.map((one) => ({
      sums: of(one.sums), pit: of(one.pit), classes: of(one.classes), witness: of(one.witness),
    })),
  };
}

// Returns the numbers of a model: means, or roots of means.
function numbersOf(quantities, sums, weight) {
  return quantities.map((quantity, index) => {
    const mean = sums[index] / weight;
    return quantity.root ? Math.sqrt(mean) : mean;
  });
}
