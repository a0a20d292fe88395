// The reliability diagram with its counts, and the histogram of correct and wrong predictions.

const DENSE = 7; // bars narrower than this many pixels are drawn without hatching and outlines

function reliabilityFigure(report, index, bins, width) {
  const model = report.models[index], merged = coarseBins(model.fine, bins), errors = calibrationErrors(merged);
  const memory = memoryOf(`bins of ${model.name}`);
  return element("figure", { class: "panel", "data-model": model.name },
    element("figcaption", {}, modelName(report, index),
      element("span", { class: "values" },
        "ECE ", number(errors.ece, metricText(errors.ece), { "data-model": model.name, "data-value": "ece" }),
        " · MCE ", number(errors.mce, metricText(errors.mce), { "data-model": model.name, "data-value": "mce" }))),
    reliabilityDrawing(model, merged, errors, width),
    tableBehind("Table of the bins", () => binsTable(model, merged, memory), memory));
}

function reliabilityDrawing(model, bins, errors, width) {
  const left = 58, right = 12, inner = width - left - right;
  const main = { left, top: 10, width: inner, height: Math.min(inner, 440) };
  const counts = { left, top: main.top + main.height + 16, width: inner, height: 52 };
  const svg = drawing(width, counts.top + counts.height + 38,
    `Reliability diagram of ${model.name} in ${bins.length} bins: expected calibration error `
    + `${metricText(errors.ece)}, maximum calibration error ${metricText(errors.mce)}.`);
  const { across, up, bottom } = drawAxes(svg, main, { ...SHARES, hideTicks: true }, { ...SHARES, label: "accuracy" });
  const most = roundedUp(Math.max(...bins.map((bin) => bin.count)), 2);
  const below = drawAxes(svg, counts, { ...SHARES, label: "confidence", grid: false },
    { low: 0, high: most, ticks: [0, most], step: most, label: "count" });
  const air = Math.min(1, inner / bins.length / 6);
  if (inner / bins.length < DENSE) svg.classList.add("dense");
  for (const bin of bins) {
    if (!bin.count) continue; // an empty bin has no bar
    const x1 = across(bin.lower) + air, x2 = across(bin.upper) - air;
    const over = bin.confidence > bin.accuracy;
    svg.append(column(x1, x2, main.top, below.bottom, binSentence(bin),
      rectangle(x1, x2, bottom, up(bin.accuracy), "bar"),
      rectangle(x1, x2, up(bin.accuracy), up(bin.confidence), over ? "over" : "under"),
      shape("line", { x1, x2, y1: up(bin.accuracy), y2: up(bin.accuracy), class: "bar-end" }),
      whisker((x1 + x2) / 2, up, wilson(bin)),
      rectangle(x1, x2, below.bottom, Math.min(below.up(bin.count), below.bottom - 1), "count")));
  }
  svg.append(shape("line", { class: "diagonal", x1: across(0), y1: up(0), x2: across(1), y2: up(1) }));
  return svg;
}

/** The 95 % interval of a bar. */
function whisker(x, up, { low, high }) {
  return shape("line", { class: "whisker", x1: x, x2: x, y1: up(low), y2: up(high) });
}

function binSentence(bin) {
  const gap = bin.confidence - bin.accuracy, off = `by ${fixed(Math.abs(gap) * 100, 1)} points`;
  const direction = gap === 0 ? "no gap" : `${gap > 0 ? "overconfident" : "underconfident"} ${off}`;
  return `Confidence in ${rangeText(bin)}: ${amountText(bin.count, "example")}, accuracy ${percentText(bin.accuracy)} `
    + `(95 % interval ${wilsonText(bin)}), mean confidence ${percentText(bin.confidence)}; ${direction}.`;
}

function histogramFigure(report, index, bins, logarithmic, width) {
  const model = report.models[index], merged = coarseBins(model.fine, bins);
  const correct = sum(merged.map((bin) => bin.correct));
  return element("figure", { class: "panel" },
    element("figcaption", {}, modelName(report, index),
      element("span", { class: "values" }, `${countText(correct)} correct, ${countText(model.count - correct)} wrong`)),
    histogramDrawing(model, merged, logarithmic, width));
}

/** Correct predictions upwards, wrong ones downwards. Logarithmic counts start at 1/2, so that one example is visible. */
function histogramDrawing(model, bins, logarithmic, width) {
  const left = 58, frame = { left, top: 10, width: width - left - 12, height: 200 };
  const most = Math.max(1, ...bins.map((bin) => Math.max(bin.correct, bin.count - bin.correct)));
  const length = logarithmic ? (count) => (count ? Math.log10(count) + 0.3 : 0) : (count) => count;
  const { ticks: above, step } = logarithmic ? decades(most) : roundTicks(0, most, 3);
  const lowest = length(Math.max(...bins.map((bin) => bin.count - bin.correct)));
  const highest = length(Math.max(...bins.map((bin) => bin.correct)));
  const low = -Math.max(lowest, highest * 0.12) * 1.05, high = Math.max(highest, lowest * 0.12) * 1.05;
  const ticks = [
    ...above.map((tick) => -length(tick)).filter((tick) => tick >= low && tick),
    ...above.map(length).filter((tick) => tick <= high),
  ];
  const text = (place) => tickText(
    logarithmic ? (place ? 10 ** (Math.abs(place) - 0.3) : 0) : Math.abs(place),
    logarithmic ? 1 : step,
  );
  const svg = drawing(width, frame.top + frame.height + 38,
    `Confidence of correct and wrong predictions of ${model.name} in ${bins.length} bins.`);
  const { across, up } = drawAxes(
    svg,
    frame,
    { ...SHARES, label: "confidence" },
    { low, high, ticks, text, label: "wrong  ·  correct" },
  );
  const air = Math.min(1, frame.width / bins.length / 6);
  if (frame.width / bins.length < DENSE) svg.classList.add("dense");
  for (const bin of bins) {
    if (!bin.count) continue;
    const x1 = across(bin.lower) + air, x2 = across(bin.upper) - air, wrong = bin.count - bin.correct;
    const sentence = `Confidence in ${rangeText(bin)}: ${countText(bin.correct)} correct, ${countText(wrong)} wrong.`;
    svg.append(column(x1, x2, frame.top, frame.top + frame.height, sentence,
      rectangle(x1, x2, up(0), up(length(bin.correct)), "bar"), rectangle(x1, x2, up(0), up(-length(wrong)), "over")));
  }
  svg.append(shape(
    "line",
    { class: "axis-line strong", x1: frame.left, x2: frame.left + frame.width, y1: up(0), y2: up(0) },
  ));
  return svg;
}

function decades(most) {
  const powers = Math.ceil(Math.log10(most));
  return { ticks: Array.from({ length: powers + 1 }, (_, power) => 10 ** power), step: 1 };
}
