// Curves of all models in one chart, what T passes say, and how a run was trained.

function riskCoverageChart(report, hidden, width) {
  const models = report.models.filter((_, index) => !hidden.has(index));
  const worst = Math.max(0, ...models.flatMap((model) => model.risk_coverage.risk));
  return curvesChart(report, hidden, width, {
    label: "Risk against coverage of every model shown.",
    x: { ...SHARES, label: "coverage: share of examples answered" },
    y: { low: 0, high: roundedUp(worst), label: "risk: share of those wrong" },
    points: (model) => model.risk_coverage.coverage.map((share, k) => [share, model.risk_coverage.risk[k]]),
    sentence: (model) => `${model.name}: area under the risk–coverage curve ${metricText(model.risk_coverage.aurc)}`,
  });
}

function coverageChart(report, hidden, width) {
  return curvesChart(report, hidden, width, {
    label: "Coverage against the confidence threshold, of every model shown.",
    x: { ...SHARES, label: "confidence threshold" },
    y: { ...SHARES, label: "coverage" },
    points: (model) => model.coverage.threshold.map((threshold, k) => [threshold, model.coverage.coverage[k]]),
    sentence: (model) => model.name,
  });
}

function curvesChart(report, hidden, width, { label, x, y, points, sentence }) {
  const frame = { left: 50, top: 12, width: width - 64, height: Math.min(360, Math.round(width * 0.7)) };
  const svg = drawing(width, frame.top + frame.height + 40, label);
  const { across, up } = drawAxes(svg, frame, x, y);
  report.models.forEach((model, index) => {
    if (hidden.has(index)) return;
    svg.append(modelLine(points(model).map(([a, b]) => [across(a), up(b)]), index, sentence(model)));
  });
  return svg;
}

/** A button per model that shows or hides its curves. */
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
  const coverageAt = (model, threshold) => {
    const k = model.coverage.threshold.findIndex((edge) => Math.abs(edge - threshold) < 1e-9);
    return k < 0 ? null : model.coverage.coverage[k];
  };
  return numbersBehind("The curves as numbers", () => scrollBox("The curves as numbers", sortableTable({
    caption: "Area under the risk–coverage curve, and coverage at some thresholds",
    columns: [
      { title: "Model", text: true, value: (model) => model.name, cell: (model) => model.name },
      {
        title: "AURC",
        value: (model) => model.risk_coverage.aurc,
        cell: (model) => metricText(model.risk_coverage.aurc),
      },
      ...[0.5, 0.7, 0.8, 0.9, 0.95].map((threshold) => ({
        title: `Coverage at ${threshold}`,
        value: (model) => coverageAt(model, threshold),
        cell: (model) => percentText(coverageAt(model, threshold)),
      })),
    ],
    rows: report.models,
  })));
}

/** Accuracy, mean score and cumulative share by normalized variance; the axis ends with the last bin in use. */
function passesFigure(report, index, width) {
  const model = report.models[index], passes = model.passes;
  const last = Math.max(...passes.upper.filter((_, k) => passes.count[k] > 0));
  const frame = { left: 46, top: 10, width: width - 60, height: 220 };
  const svg = drawing(width, frame.top + frame.height + 38,
    `Accuracy and mean score of ${model.name} by the normalized variance of ${passes.samples} passes.`);
  const { across, up, bottom } = drawAxes(svg, frame, { low: 0, high: last, label: "normalized variance" }, SHARES);
  const cumulative = [[across(0), up(0)]];
  passes.count.forEach((count, k) => {
    if (passes.lower[k] >= last) return;
    const x1 = across(passes.lower[k]) + 0.6, x2 = across(passes.upper[k]) - 0.6;
    cumulative.push([across(passes.upper[k]), up(passes.coverage[k])]);
    if (!count) return;
    const range = `(${tickText(passes.lower[k], 0.001)}, ${tickText(passes.upper[k], 0.001)}]`;
    const sentence = `Variance in ${range}: ${amountText(count, "example")}, `
      + `${percentText(passes.accuracy[k])} right, mean score ${percentText(passes.score[k])}.`;
    svg.append(column(x1, x2, frame.top, bottom, sentence,
      rectangle(x1, x2, bottom, up(passes.accuracy[k]), "bar"),
      shape(
        "path",
        {
          d: MARKERS[3],
          transform: `translate(${(x1 + x2) / 2},${up(passes.score[k])}) scale(1.2)`,
          class: "score-mark",
        },
      )));
  });
  svg.append(shape("path", { d: linePath(cumulative), class: "share-line" }));
  return element("figure", { class: "panel" },
    element(
      "figcaption",
      {},
      modelName(report, index),
      element("span", { class: "readings" }, amountText(passes.samples, "pass", "passes")),
    ), svg);
}

/** One small chart per quantity that was recorded. */
function trainingFigures(model, width) {
  const rows = model.training;
  const splits = [...new Set(rows.map((row) => row.split).filter(Boolean))].join(", ") || "held-out";
  const charts = [
    { title: "Loss", low: 0, lines: [{ key: "loss", name: "training", index: 0 }] },
    {
      title: "Accuracy",
      low: 0,
      lines: [{ key: "train_accuracy", name: "training", index: 0 }, { key: "accuracy", name: splits, index: 1 }],
    },
    { title: "ECE", low: 0, lines: [{ key: "ece", name: splits, index: 1 }] },
    { title: "NLL", low: 0, lines: [{ key: "nll", name: splits, index: 1 }] },
  ];
  const filled = charts.map((chart) => ({
    ...chart,
    lines: chart.lines.filter(({ key }) => rows.some((row) => isNumber(row[key]))),
  }));
  return filled.filter((chart) => chart.lines.length).map((chart) => trainingFigure(model, chart, width));
}

function trainingFigure(model, chart, width) {
  const rows = model.training, epochs = rows.map((row) => row.epoch);
  const values = chart.lines.flatMap(({ key }) => rows.map((row) => row[key]).filter(isNumber));
  const frame = { left: 46, top: 10, width: width - 60, height: 150 };
  const svg = drawing(
    width,
    frame.top + frame.height + 38,
    `${chart.title} of ${model.name} by epoch; at last ${metricText(values.at(-1))}.`,
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
      element("span", { class: "readings" }, chart.lines.map(({ index, name }) =>
        element("span", { class: "line-key" }, lineSample(index), name)))), svg);
}

function wholeTicks(low, high) {
  const { ticks } = roundTicks(low, Math.max(high, low + 1), 5);
  return { ticks: ticks.filter((tick) => Number.isInteger(tick)), step: 1 };
}
