// The threshold explorer: what a threshold gives, and which threshold is sure to give an accuracy.

/** Four readings at a threshold, each with what it is a share of. */
function thresholdTiles(model, index) {
  const found = atThreshold(model, index);
  const tile = (value, shown, key, title, about) => element("div", { class: "tile" },
    element("span", { class: "tile-title" }, title),
    number(value, shown, { "data-model": model.name, "data-value": key }),
    element("span", { class: "tile-about" }, about));
  return [
    tile(found.coverage, percentText(found.coverage), "coverage", "Coverage",
      `${countText(found.accepted)} of ${countText(found.total)} pass`),
    tile(found.accuracy, percentText(found.accuracy), "accuracy", "Accuracy of what passes",
      found.accepted ? `${countText(found.correct)} of them are right` : "nothing passes"),
    tile(
      found.mistakes,
      countText(found.mistakes),
      "mistakes",
      "Mistakes that pass",
      `of ${amountText(found.wrong, "mistake")}`,
    ),
    tile(
      found.heldBack,
      countText(found.heldBack),
      "held-back",
      "Right answers held back",
      `of ${amountText(found.right, "right answer")}`,
    ),
  ];
}

/** Coverage and accuracy at every threshold, with a line at the chosen one. */
function thresholdChart(report, model, index, width) {
  const { thresholds } = report, chosen = atThreshold(model, index), x = thresholds[index];
  const frame = { left: 46, top: 10, width: width - 60, height: 210 };
  const svg = drawing(width, frame.top + frame.height + 38,
    `Coverage and accuracy of ${model.name} at every threshold; at ${x} ${percentText(chosen.coverage)} pass.`);
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
      element("li", {}, element("span", { class: "swatch accuracy" }), "accuracy of what passes"),
      element("li", {}, element("span", { class: "swatch chosen" }), "this threshold")),
    svg);
}

/** All models at the same threshold. */
function thresholdTable(report, place) {
  const rows = report.models.map((model, index) => ({ index, name: model.name, ...atThreshold(model, place) }));
  return sortableTable({
    caption: "Every model at this threshold",
    memory: kept("threshold"),
    columns: [
      { title: "Model", text: true, value: (row) => row.name, cell: (row) => modelName(report, row.index) },
      { title: "Coverage", value: (row) => row.coverage, cell: (row) => percentText(row.coverage) },
      { title: "Accuracy", value: (row) => row.accuracy, cell: (row) => percentText(row.accuracy) },
      {
        title: "Mistakes",
        help: "Mistakes that pass",
        value: (row) => row.mistakes,
        cell: (row) => countText(row.mistakes),
      },
      {
        title: "Held back",
        help: "Right answers held back",
        value: (row) => row.heldBack,
        cell: (row) => countText(row.heldBack),
      },
    ],
    rows,
    rowAttributes: (row) => ({ "data-model": row.name }),
  });
}

/** What every model offers for the same wanted accuracy. */
function guaranteeTable(report, wanted) {
  const rows = report.models.map((model, index) => ({
    index,
    name: model.name,
    ...thresholdFor(report, model, wanted),
  }));
  return sortableTable({
    caption: "Every model for this accuracy",
    memory: kept("guarantee"),
    columns: [
      { title: "Model", text: true, value: (row) => row.name, cell: (row) => modelName(report, row.index) },
      {
        title: "Threshold",
        help: "Accept where the confidence is at least this",
        value: (row) => row.threshold,
        cell: (row) => (row.threshold === null ? "none is sure" : String(row.threshold)),
      },
      {
        title: "Coverage",
        help: "Share of the examples it accepts",
        value: (row) => (row.threshold === null ? null : row.coverage),
        cell: (row) => (row.threshold === null ? NOTHING : percentText(row.coverage)),
      },
    ],
    rows,
    rowAttributes: (row) => ({ "data-model": row.name }),
  });
}

/** The answer to a wanted accuracy: the message of the guarantee, what it was found on, and a way to try it. */
function guaranteeAnswer(report, model, wanted, tryThreshold) {
  const found = thresholdFor(report, model, wanted);
  const sure = found.threshold !== null;
  return [
    element("p", { class: `answer ${sure ? "good" : "bad"}` },
      element("span", { class: "answer-mark", "aria-hidden": "true" }, sure ? "✓" : "✕"),
      element("span", { class: "message", "data-model": model.name, "data-value": "guarantee" }, `${found.message}.`)),
    sure ? element("p", { class: "muted" },
      `Found on ${amountText(found.accepted, "accepted example")}, of which ${countText(found.correct)} `
      + `(${percentText(found.accuracy)}) are right. `
      + "It holds for future examples that are like these.") : null,
    sure ? element("button",
      { type: "button", class: "control", id: "try-threshold", click: () => tryThreshold(found.threshold) },
      `Try ${found.threshold} in the explorer`) : null,
  ];
}
