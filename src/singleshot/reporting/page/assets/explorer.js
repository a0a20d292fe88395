// The threshold explorer: coverage and accuracy at a threshold, and the threshold for a target accuracy.

/** Four numbers at a threshold, each with its total. */
function thresholdTiles(model, index) {
  const found = atThreshold(model, index);
  const tile = (value, shown, key, title, about) => element("div", { class: "tile" },
    element("span", { class: "tile-title" }, title),
    number(value, shown, { "data-model": model.name, "data-value": key }),
    element("span", { class: "tile-about" }, about));
  return [
    tile(found.coverage, percentText(found.coverage), "coverage", "Coverage",
      `${countText(found.accepted)} of ${countText(found.total)} accepted`),
    tile(found.accuracy, percentText(found.accuracy), "accuracy", "Accuracy of accepted predictions",
      found.accepted ? `${countText(found.correct)} of them correct` : "none accepted"),
    tile(
      found.mistakes,
      countText(found.mistakes),
      "mistakes",
      "Accepted mistakes",
      `of ${amountText(found.wrong, "mistake")}`,
    ),
    tile(
      found.rejected,
      countText(found.rejected),
      "rejected",
      "Rejected correct predictions",
      `of ${amountText(found.right, "correct prediction")}`,
    ),
  ];
}

/** Coverage and accuracy by threshold, with a line at the chosen one. */
function thresholdChart(report, model, index, width) {
  const { thresholds } = report, chosen = atThreshold(model, index), x = thresholds[index];
  const frame = { left: 46, top: 10, width: width - 60, height: 210 };
  const svg = drawing(width, frame.top + frame.height + 38,
    `Coverage and accuracy of ${model.name} by threshold; ${percentText(chosen.coverage)} are accepted at ${x}.`);
  const { across, up, bottom } = drawAxes(svg, frame, { ...SHARES, label: "confidence threshold" }, { ...SHARES });
  const line = (key) => thresholds.map((threshold, place) => {
    const value = atThreshold(model, place)[key];
    return value === null ? null : [across(threshold), up(value)];
  });
  svg.append(
    shape("path", { d: linePath(line("coverage")), class: "coverage-line" }),
    shape("path", { d: linePath(line("accuracy")), class: "accuracy-line" }),
    shape("line", { class: "chosen", x1: across(x), x2: across(x), y1: frame.top, y2: bottom }));
  return element("figure", {},
    element("ul", { class: "key", "aria-label": "Key" },
      element("li", {}, element("span", { class: "swatch coverage" }), "coverage"),
      element("li", {}, element("span", { class: "swatch accuracy" }), "accuracy of accepted predictions"),
      element("li", {}, element("span", { class: "swatch chosen" }), "this threshold")),
    svg);
}

/** All models at one threshold. */
function thresholdTable(report, place) {
  const rows = report.models.map((model, index) => ({ index, name: model.name, ...atThreshold(model, place) }));
  return sortableTable({
    caption: "All models at this threshold",
    memory: memoryOf("threshold"),
    columns: [
      { title: "Model", text: true, value: (row) => row.name, cell: (row) => modelName(report, row.index) },
      { title: "Coverage", value: (row) => row.coverage, cell: (row) => percentText(row.coverage) },
      { title: "Accuracy", value: (row) => row.accuracy, cell: (row) => percentText(row.accuracy) },
      {
        title: "Mistakes",
        help: "Accepted mistakes",
        value: (row) => row.mistakes,
        cell: (row) => countText(row.mistakes),
      },
      {
        title: "Rejected",
        help: "Rejected correct predictions",
        value: (row) => row.rejected,
        cell: (row) => countText(row.rejected),
      },
    ],
    rows,
    rowAttributes: (row) => ({ "data-model": row.name }),
  });
}

/** The thresholds of all models for one target accuracy. */
function guaranteeTable(report, target) {
  const rows = report.models.map((model, index) => ({
    index,
    name: model.name,
    ...thresholdFor(report, model, target),
  }));
  return sortableTable({
    caption: "All models for this accuracy",
    memory: memoryOf("guarantee"),
    columns: [
      { title: "Model", text: true, value: (row) => row.name, cell: (row) => modelName(report, row.index) },
      {
        title: "Threshold",
        help: "Accept predictions with at least this confidence",
        value: (row) => row.threshold,
        cell: (row) => (row.threshold === null ? "none" : String(row.threshold)),
      },
      {
        title: "Coverage",
        help: "Share of the examples that are accepted",
        value: (row) => (row.threshold === null ? null : row.coverage),
        cell: (row) => (row.threshold === null ? NOTHING : percentText(row.coverage)),
      },
    ],
    rows,
    rowAttributes: (row) => ({ "data-model": row.name }),
  });
}

/** The threshold for a target accuracy: its guarantee, the data behind it, and a button to try it. */
function guaranteeAnswer(report, model, target, tryThreshold) {
  const found = thresholdFor(report, model, target);
  const exists = found.threshold !== null;
  return [
    element("p", { class: `answer ${exists ? "good" : "bad"}` },
      element("span", { class: "answer-mark", "aria-hidden": "true" }, exists ? "✓" : "✕"),
      element("span", { class: "message", "data-model": model.name, "data-value": "guarantee" }, `${found.message}.`)),
    exists ? element("p", { class: "muted" },
      `Based on ${amountText(found.accepted, "accepted example")}, ${countText(found.correct)} `
      + `(${percentText(found.accuracy)}) of them correct. `
      + "The guarantee holds for new examples from the same distribution.") : null,
    exists ? element("button",
      { type: "button", class: "control", id: "try-threshold", click: () => tryThreshold(found.threshold) },
      `Try ${found.threshold} in the explorer`) : null,
  ];
}
