// The controls, and what follows them: numbers, curves and rows of the region.

function makeExplorer(place, data) {
  const every = { group: -1, axis: -1, from: 0, to: 0, low: 0, high: 0 };
  let region = every;
  const all = sumsOf(data, every).region;
  const followed = data.followed.index;
  const maps = data.map ? data.models.slice(0, 3) : [];
  const columns = data.axes[0].name ? data.axes : [];

  const status = element("p", { class: "region", "aria-live": "polite", id: "region-status" });
  const group = element("select", { id: "region-group" },
    element("option", { value: "-1" }, "all rows"),
    ...data.groups.map((name, index) => element("option", { value: index }, name)));
  const clear = element("button", { type: "button", class: "control" }, "Clear region");
  const toolbar = element("p", { class: "toolbar" });
  if (data.groups.length > 1) {
    toolbar.append(element("label", { for: "region-group" }, "Group "), group, " ");
  }
  toolbar.append(clear);

  const columnNodes = columns.map((axis, index) => {
    const node = element("div", {
      class: "brush", tabindex: "0", role: "group",
      "aria-label": `${axis.name}. Arrow keys choose bins, with shift more of them, escape clears.` });
    const current = () => (region.axis === index ? [region.from, region.to] : null);
    brushRuns(node, axis.bins, current, (from, to) => change(
      from === null ? { axis: -1 } : { axis: index, from, to }));
    return node;
  });
  const mapNodes = maps.map((name) => {
    const node = element("div", {
      class: "brush map", tabindex: "0", role: "group",
      "aria-label": `Map ${name}. Arrow keys choose cells, with shift more of them, escape clears.` });
    const current = () => (region.axis === "map" ? region : null);
    brushCells(node, data, current, (cells) => change(cells ? { axis: "map", ...cells } : { axis: -1 }));
    return node;
  });
  const shades = element("div", { class: "shades" });
  const numbers = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers" });
  const curves = element("div", { class: "pictures three" });
  const list = data.list ? makeRowList(data) : null;

  const titled = (title, node) => element("figure", {},
    element("figcaption", {}, element("strong", {}, title)), node);
  const legend = data.models.length > 1
    ? element("p", { class: "legend" }, ...data.models.flatMap((name, model) => {
      const swatch = shape("svg", { viewBox: "0 0 10 10", class: "swatch", "aria-hidden": "true" },
        shape("rect", { width: 10, height: 10, class: `f${model % 6}` }));
      return [swatch, ` ${name} `];
    })) : "";
  place.append(
    toolbar, status, legend,
    element("div", { class: "columns" },
      ...columns.map((axis, index) => titled(axis.name, columnNodes[index]))),
    curves,
    element("div", { class: maps.length > 1 ? "" : "beside" },
      ...(maps.length ? [element("div", { class: "maps" },
        element("div", { class: "columns" },
          ...maps.map((name, index) => titled(name ? `Map: ${name}` : "Map", mapNodes[index]))),
        shades)] : []),
      element("div", { class: "numbers" }, element("h3", {}, "Numbers of the region"), numbers)),
    ...(list ? [element("h3", {}, "Rows of the region"), list.node] : []));

  function change(part) {
    const next = { ...region, ...part };
    if (JSON.stringify(next) === JSON.stringify(region)) return;
    region = next;
    draw();
  }
  group.addEventListener("change", () => change({ group: Number(group.value) }));
  clear.addEventListener("click", () => {
    group.value = "-1";
    change(every);
  });

  function drawColumns() {
    const bins = columns.map((_, axis) => binMeans(data, axis, region.group, followed));
    const values = bins.flat().flatMap((bin) => bin.means).filter(Number.isFinite);
    const top = 1.05 * Math.max(...values, 1e-12);
    columnNodes.forEach((node, axis) => node.replaceChildren(drawColumn(data, axis, bins[axis], region, top)));
  }

  function drawMaps() {
    const means = maps.map((_, model) => cellMeans(data, region.group, model, followed));
    const { few } = data.followed;
    const shares = maps.map((_, model) => (few < 0 ? [] : cellMeans(data, region.group, model, few)));
    const supported = means.map((cells, model) => cells.filter((_, cell) => !(shares[model][cell] >= 0.5)));
    const values = supported.flat().filter(Number.isFinite);
    const ends = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
    mapNodes.forEach((node, model) => node.replaceChildren(drawMap(data, means[model], shares[model], ends, region)));
    shades.replaceChildren(drawShades(ends, data.followed.text, few >= 0));
  }

  function drawNumbers(sums) {
    const whole = region.group < 0 && region.axis < 0;
    const parts = whole ? [["all rows", sums.region]] : [["region", sums.region], ["all other rows", sums.others]];
    const heads = data.models.flatMap((name) => parts.map(([part]) => (name ? `${name}: ${part}` : part)));
    const values = data.models.flatMap((_, model) => parts.map(
      ([, one]) => numbersOf(data.quantities, one.models[model].sums, one.weight)));
    const line = (name, cells, best) => element("tr", {}, element("td", {}, name),
      ...cells.map((text) => element("td", {}, text)), element("td", { class: "word" }, best));
    numbers.replaceChildren(element("table", {},
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }),
        ...heads.map((name) => element("th", { scope: "col" }, name)), element("th", { scope: "col" }))),
      element("tbody", {},
        line("rows", data.models.flatMap(() => parts.map(([, one]) => numberText(one.rows))), ""),
        ...data.quantities.map((one, index) => line(
          one.label, values.map((column) => numberText(column[index])), one.best)))));
  }

  function drawCurves(sums) {
    const figures = [];
    const bandNote = data.bands ? " Band: 95 % of calibrated models, point by point." : "";
    const dashes = data.models.length === 1 || data.levels ? " Dashes: all rows." : "";
    if (!(sums.weight > 0)) {
      curves.replaceChildren(element("p", {}, "There is no row in this region."));
      return;
    }
    if (data.levels) {
      figures.push([`Reliability`, drawReliability(data, sums, all, data.bands), bandNote
        + (data.models.length === 1 ? dashes : "")]);
      data.models.forEach((name, model) => figures.push([
        name ? `PIT: ${name}` : "PIT", drawPit(data, sums, all, model, data.bands), bandNote + dashes]));
    }
    if (data.classes.length && sums.models[0].classes) {
      figures.push(["Frequency and probability", drawClassReliability(data, sums, all, data.bands),
        data.bands ? " Bars: 95 % of calibrated models, in bins with enough rows." : ""]);
    }
    if (sums.models[0].witness && sums.witnessRows > 0) {
      const basis = data.sampled < data.n
        ? ` Mean of ${numberText(sums.witnessRows)} sampled rows of the region.` : "";
      figures.push(["Witness", drawWitness(data, sums, all),
        `Above 0: the model gives too little mass; below: too much.${basis}`
        + (data.models.length === 1 && !data.classes.length ? dashes : "")]);
    }
    curves.replaceChildren(...figures.map(([title, svg, text]) => element("figure", {}, svg,
      element("figcaption", {}, element("strong", {}, title), text))));
  }

  function draw() {
    const sums = sumsOf(data, region);
    const whole = region.group < 0 && region.axis < 0;
    const { rows } = sums.region;
    const share = numberText((100 * rows) / data.n);
    status.textContent = whole
      ? `All ${numberText(data.n)} rows. No region is chosen.`
      : `Region: ${describeRegion(data, region)}: ${numberText(rows)} of ${numberText(data.n)} rows `
        + `(${share} %). Chosen by looking: no test.`;
    clear.disabled = whole;
    drawColumns();
    if (maps.length) drawMaps();
    drawNumbers(sums);
    drawCurves(sums.region);
    if (list) list.update(region, rows);
  }
  draw();
}

makeSortable();
const explorerPlace = document.getElementById("explorer");
if (explorerPlace) {
  makeExplorer(explorerPlace, decodeData(JSON.parse(document.getElementById("cube").textContent)));
}
