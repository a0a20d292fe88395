// Curves of all models, disagreement of stochastic passes, and training curves.

function riskCoverageChart(report, hidden, width) {
  const models = report.models.filter((_, index) => !hidden.has(index));
  const worst = Math.max(0, ...models.flatMap((model) => model.risk_coverage.risk));
  const frame = { left: 50, top: 12, width: width - 64, height: Math.min(360, Math.round(width * 0.7)) };
  const svg = drawing(width, frame.top + frame.height + 40, "Risk against coverage of the models shown.");
  const x = { ...SHARES, label: "coverage: share of examples accepted" };
  const y = { low: 0, high: roundedUp(worst), label: "risk: error rate among them" };
  const { across, up } = drawAxes(svg, frame, x, y);
  report.models.forEach((model, index) => {
    if (hidden.has(index)) return;
    const { coverage, risk, aurc } = model.risk_coverage;
    const points = coverage.map((share, k) => [across(share), up(risk[k])]);
    svg.append(modelLine(points, index, `${model.name}: area under the risk–coverage curve ${metricText(aurc)}`));
  });
  return svg;
}

/** One button per model that shows or hides its curves. */
function legendButtons(report, hidden, change) {
  return report.models.map((model, index) => {
    const button = element(
      "button",
      { type: "button", class: "control", "data-model": model.name, "aria-pressed": String(!hidden.has(index)) },
      modelName(report, index),
    );
    button.addEventListener("click", () => {
      if (!hidden.delete(index)) hidden.add(index);
      button.setAttribute("aria-pressed", String(!hidden.has(index)));
      change();
    });
    return button;
  });
}

function curvesNumbers(report) {
  const riskAt = ({ risk_coverage: { coverage, risk } }, share) => risk[coverage.findIndex((one) => one >= share - 1e-9)];
  const memory = memoryOf("curves");
  return tableBehind("Table of the curves", () => scrollBox("Table of the curves", sortableTable({
    memory,
    caption: "Area under the risk–coverage curve, and error rate at several coverages",
    columns: [
      { title: "Model", text: true, value: (model) => model.name, cell: (model) => model.name },
      {
        title: "AURC",
        value: (model) => model.risk_coverage.aurc,
        cell: (model) => metricText(model.risk_coverage.aurc),
      },
      ...[0.2, 0.5, 0.8, 0.9, 1].map((share) => ({
        title: `Risk at ${share * 100} %`,
        help: `Error rate of the most confident ${share * 100} % of the examples`,
        value: (model) => riskAt(model, share),
        cell: (model) => percentText(riskAt(model, share)),
      })),
    ],
    rows: report.models,
  })), memory);
}

/** Accuracy, mean score and cumulative share by normalized variance, up to the last non-empty bar. */
function passesFigure(report, index, width) {
  const model = report.models[index], { passes } = model, bars = passesBars(passes);
  const memory = memoryOf(`passes of ${model.name}`);
  return element("figure", { class: "panel", "data-model": model.name },
    element("figcaption", {}, modelName(report, index),
      element("span", { class: "values" }, passesText(passes))),
    passesDrawing(model, bars, width),
    tableBehind("Table of the bars", () => passesTable(model, bars, memory), memory));
}

/** "5 passes over 10,000 of 50,000 examples", or "5 passes over 50,000 examples". */
function passesText({ samples, examples, of }) {
  const some = examples === of ? "" : `${countText(examples)} of `;
  return `${amountText(samples, "pass", "passes")} over ${some}${amountText(of, "example")}`;
}

function passesDrawing(model, bars, width) {
  const frame = { left: 46, top: 10, width: width - 60, height: 220 };
  const svg = drawing(width, frame.top + frame.height + 38,
    `Accuracy and mean score of ${model.name} by the normalized variance of `
    + `${amountText(model.passes.samples, "pass", "passes")}.`);
  const x = { low: 0, high: bars.at(-1).upper, label: "normalized variance" };
  const { across, up, bottom } = drawAxes(svg, frame, x, SHARES);
  for (const bar of bars) {
    if (!bar.count) continue; // an empty bar has no accuracy and no score
    const x1 = across(bar.lower) + 0.6, x2 = across(bar.upper) - 0.6;
    const place = `translate(${(x1 + x2) / 2},${up(bar.score)}) scale(1.2)`;
    svg.append(column(x1, x2, frame.top, bottom, barSentence(bar),
      rectangle(x1, x2, bottom, up(bar.accuracy), "bar"),
      whisker((x1 + x2) / 2, up, wilson(bar)),
      shape("path", { d: MARKERS[3], transform: place, class: "score-mark" })));
  }
  const cumulative = [[across(0), up(0)], ...bars.map((bar) => [across(bar.upper), up(bar.coverage)])];
  svg.append(shape("path", { d: linePath(cumulative), class: "share-line" }));
  return svg;
}

function barSentence(bar) {
  return `Variance in ${rangeText(bar)}: ${amountText(bar.count, "example")}, accuracy ${percentText(bar.accuracy)} `
    + `(95 % interval ${wilsonText(bar)}), mean score ${percentText(bar.score)}.`;
}

function passesTable(model, bars, memory) {
  return scrollBox(`Passes of ${model.name}`, sortableTable({
    caption: `Passes of ${model.name} by their normalized variance`,
    memory,
    columns: [
      { title: "Variance", text: true, value: (bar) => bar.lower, cell: rangeText },
      { title: "Examples", value: (bar) => bar.count, cell: (bar) => countText(bar.count) },
      { title: "Accuracy", value: (bar) => bar.accuracy, cell: (bar) => fixed(bar.accuracy, 4) },
      { title: "95 % interval", value: (bar) => bar.accuracy, cell: wilsonText },
      { title: "Mean score", value: (bar) => bar.score, cell: (bar) => fixed(bar.score, 4) },
      {
        title: "Share",
        help: "Share of the examples in this bar and all before it",
        value: (bar) => bar.coverage,
        cell: (bar) => percentText(bar.coverage),
      },
    ],
    rows: bars,
  }), "low");
}

/** The charts of a training, with the lines that have a value at any epoch. */
function trainingCharts(rows) {
  const split = [...new Set(rows.map((row) => row.split).filter(Boolean))].join(", ") || "held-out";
  const trained = { name: "training", index: 0 }, held = { name: split, index: 1 };
  const charts = [
    { title: "Loss", lines: [{ key: "loss", ...trained }] },
    { title: "Accuracy", lines: [{ key: "train_accuracy", ...trained }, { key: "accuracy", ...held }] },
    { title: "ECE", lines: [{ key: "ece", ...held }] },
    { title: "NLL", lines: [{ key: "nll", ...held }] },
    { title: "Strength of the loss", lines: [{ key: "strength", name: "tuned on held-out images", index: 0 }] },
  ];
  const isRecorded = ({ key }) => rows.some((row) => isNumber(row[key]));
  return charts.map(({ title, lines }) => ({ title, lines: lines.filter(isRecorded) }))
    .filter(({ lines }) => lines.length);
}

function trainingFigures(model, width) {
  return trainingCharts(model.training).map((chart) => trainingFigure(model, chart, width));
}

function trainingNumbers(model) {
  const memory = memoryOf("training");
  const columns = trainingCharts(model.training).flatMap(({ title, lines }) => lines.map(({ key, name }) => ({
    title: `${title}, ${name}`,
    value: (row) => row[key],
    cell: (row) => metricText(row[key]),
  })));
  return tableBehind("Table of the epochs", () => scrollBox("Epochs", sortableTable({
    caption: `Epochs of ${model.name}`,
    memory,
    columns: [{ title: "Epoch", value: (row) => row.epoch, cell: (row) => countText(row.epoch) }, ...columns],
    rows: model.training,
  }), "low"), memory);
}

function trainingFigure(model, chart, width) {
  const rows = model.training, epochs = rows.map((row) => row.epoch);
  const values = chart.lines.flatMap(({ key }) => rows.map((row) => row[key]).filter(isNumber));
  const frame = { left: 46, top: 10, width: width - 60, height: 150 };
  const svg = drawing(
    width,
    frame.top + frame.height + 38,
    `${chart.title} of ${model.name} by epoch; final value ${metricText(values.at(-1))}.`,
  );
  const least = Math.min(...epochs), most = Math.max(...epochs);
  const x = { low: Math.min(least, most - 1), high: most, label: "epoch", ...wholeTicks(least, most) };
  const { across, up } = drawAxes(
    svg,
    frame,
    x,
    { low: Math.min(0, ...values), high: roundedUp(Math.max(...values), 3) },
  );
  for (const { key, index, name } of chart.lines) {
    const points = rows.filter((row) => isNumber(row[key])).map((row) => [across(row.epoch), up(row[key])]);
    svg.append(modelLine(points, index, name));
  }
  return element("figure", { class: "panel" },
    element("figcaption", {}, element("strong", {}, chart.title),
      element("span", { class: "values" }, chart.lines.map(({ index, name }) =>
        element("span", { class: "line-key" }, lineSample(index), name)))), svg);
}

function wholeTicks(low, high) {
  const { ticks } = roundTicks(low, Math.max(high, low + 1), 5);
  return { ticks: ticks.filter((tick) => Number.isInteger(tick)), step: 1 };
}
