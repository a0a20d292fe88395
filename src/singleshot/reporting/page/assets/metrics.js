// Metrics of every model, and paired differences.

/** One row per model; `metrics` are the columns shown. */
function metricsTable(report, metrics, bins) {
  const columns = [
    {
      title: "Model",
      text: true,
      value: (index) => report.models[index].name,
      cell: (index) => modelName(report, index),
    },
    ...report.metrics.map((metric) => ({
      title: metric.title,
      help: metric.help,
      first: metric.better === "lower" ? "ascending" : "descending",
      value: (index) => metricOf(report, report.models[index], metric, bins).estimate,
      cell: (index) => metricCell(report, report.models[index], metric, bins),
    })),
  ];
  return sortableTable({
    caption: "Metrics of every model, with 95 % intervals",
    columns,
    shown: columns.filter(({ title }, index) => index === 0 || metrics.some((metric) => metric.title === title)),
    memory: memoryOf("metrics"),
    rows: report.models.map((_, index) => index),
    rowAttributes: (index) => ({ "data-model": report.models[index].name }),
  });
}

const NEED_EXAMPLES = ["debiased_ece", "adaptive_ece"]; // of the metrics that depend on the number of bins

/** A metric of a model {estimate, low, high}; with other bins than those of the report it has no interval. */
function metricOf(report, model, metric, bins) {
  const { infinite, ...found } = model.metrics[metric.name];
  if (infinite) return { estimate: Infinity }; // JSON has no infinity, so a flag marks it
  if (bins === report.default_bins) return found;
  if (NEED_EXAMPLES.includes(metric.name)) return {};
  const errors = calibrationErrors(coarseBins(model.fine, bins));
  return metric.name in errors ? { estimate: errors[metric.name] } : found;
}

function intervalOf({ low, high }) {
  return isNumber(low) ? `${metricText(low)}\u00a0– ${metricText(high)}` : null; // breaks only after the dash
}

/** A star marks what is better than all others beyond chance, which was tested with the bins of the report. */
function metricCell(report, model, metric, bins) {
  const { estimate, ...bounds } = metricOf(report, model, metric, bins), interval = intervalOf(bounds);
  if (!isNumber(estimate)) return [element("span", { class: "muted" }, NOTHING)];
  const isBest = report.best[metric.name] === model.name && (interval !== null || bins === report.default_bins);
  return [
    element("span", { class: isBest ? "estimate best" : "estimate" },
      isBest ? element(
        "span",
        { class: "star", title: "better than the others beyond chance" },
        element("span", { "aria-hidden": "true" }, "★"),
        element("span", { class: "unseen" }, "best: "),
      ) : null,
      number(estimate, metricText(estimate), { "data-metric": metric.name })),
    interval === null ? null : element("span", { class: "interval" }, interval),
  ];
}

/** The metrics of a single model: one row each, with an explanation. */
function metricsList(report, metrics, bins) {
  const [model] = report.models, of = (metric) => metricOf(report, model, metric, bins);
  return sortableTable({
    caption: `Metrics of ${model.name}`,
    memory: memoryOf("metrics"),
    columns: [
      { title: "Metric", text: true, value: (metric) => metric.title, cell: (metric) => metric.title },
      {
        title: "Value",
        value: (metric) => of(metric).estimate,
        cell: (metric) => metricCell(report, model, metric, bins)[0],
      },
      {
        title: "95 % interval",
        value: (metric) => of(metric).low,
        cell: (metric) => intervalOf(of(metric)) ?? NOTHING,
      },
      { title: "Meaning", text: true, value: (metric) => metric.help, cell: (metric) => metric.help },
    ],
    rows: metrics,
    rowAttributes: () => ({ "data-model": model.name }),
  });
}

function metricMeanings(report) {
  const meaning = { higher: "Higher is better.", lower: "Lower is better." };
  return disclosure({ class: "numbers" }, "What these metrics mean", memoryOf("meanings"),
    element("dl", { class: "meanings" }, report.metrics.map((metric) => [
      element("dt", {}, metric.title),
      element("dd", {}, [metric.help, meaning[metric.better]].filter(Boolean).join(" ")),
    ])));
}

/** One row per pair of models, one column per metric. */
function comparisonsTable(report) {
  const names = report.compared.filter((metric) =>
    report.comparisons.some((pair) => pair.differences.some((one) => one.metric === metric.name)));
  const of = (pair, metric) => pair.differences.find((one) => one.metric === metric.name);
  const made = report.comparisons.filter((pair) => pair.differences.length);
  return sortableTable({
    caption: "Paired differences of the metrics of two models",
    columns: [
      {
        title: "Compared", text: true, value: (pair) => pair.of,
        cell: (pair) => [
          element("span", {}, pair.of),
          element("span", { class: "interval" }, `against ${pair.against}`),
        ],
      },
      ...names.map((metric) => ({
        title: metric.title,
        help: metric.help,
        value: (pair) => of(pair, metric)?.difference,
        cell: (pair) => differenceCell(of(pair, metric), metric),
      })),
    ],
    rows: made,
  });
}

function differenceCell(one, metric) {
  if (!one) return NOTHING;
  const { symbol, word, tone } = differenceTone(one, metric.better);
  return [
    element("span", { class: "estimate" }, number(one.difference, signedText(one.difference))),
    element("span", { class: "interval" }, `${signedText(one.low)} to ${signedText(one.high)}`),
    element(
      "span",
      { class: `verdict-word ${tone}` },
      `${symbol} ${word}`,
      element("span", { class: "p" }, ` · p ${fixed(one.p_value, 3)}`),
    ),
  ];
}

/** Whether a difference is an improvement; unclear if its interval contains 0. */
function differenceTone({ low, high }, better) {
  const unclear = !isNumber(low) || !isNumber(high) || (low <= 0 && high >= 0);
  if (unclear) return { symbol: "≈", word: "no clear difference", tone: "even" };
  const improved = (low > 0) === (better === "higher");
  return improved ? { symbol: "✓", word: "better", tone: "good" } : { symbol: "✕", word: "worse", tone: "bad" };
}
