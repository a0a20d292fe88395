// Metrics of every model, and paired differences.

/** One row per model; `metrics` are the columns shown. */
function metricsTable(report, metrics) {
  const best = Object.fromEntries(report.metrics.map((metric) => [metric.name, bestOf(report, metric)]));
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
      value: (index) => estimateOf(report.models[index], metric),
      cell: (index) => metricCell(report.models[index], metric, best[metric.name]),
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

/** A metric of a model; JSON has no infinity, so a flag marks it. */
function estimateOf(model, metric) {
  const found = model.metrics[metric.name];
  return found?.infinite ? Infinity : found?.estimate;
}

function intervalOf({ low, high, infinite }) {
  return infinite || !isNumber(low) ? null : `${metricText(low)} – ${metricText(high)}`;
}

/** The models evaluated on the same examples as the first; only these can be ranked. */
function comparableModels(report) {
  return report.models.filter((model) => model.same_examples);
}

function bestOf(report, metric) {
  const values = comparableModels(report).map((model) => estimateOf(model, metric)).filter(isNumber);
  if (metric.better === null || values.length < 2 || !values.some(Number.isFinite)) return null;
  return metric.better === "higher" ? Math.max(...values) : Math.min(...values);
}

function metricCell(model, metric, best) {
  const estimate = estimateOf(model, metric);
  if (!isNumber(estimate)) return [element("span", { class: "muted" }, NOTHING)];
  const isBest = best !== null && model.same_examples && estimate === best;
  const interval = intervalOf(model.metrics[metric.name]);
  return [
    element("span", { class: isBest ? "estimate best" : "estimate" },
      isBest ? element(
        "span",
        { class: "star", title: "best of this column" },
        element("span", { "aria-hidden": "true" }, "★"),
        element("span", { class: "unseen" }, "best: "),
      ) : null,
      number(estimate, metricText(estimate), { "data-metric": metric.name })),
    interval === null ? null : element("span", { class: "interval" }, interval),
  ];
}

/** The metrics of a single model: one row each, with an explanation. */
function metricsList(report) {
  const [model] = report.models;
  return sortableTable({
    caption: `Metrics of ${model.name}`,
    memory: memoryOf("metrics"),
    columns: [
      { title: "Metric", text: true, value: (metric) => metric.title, cell: (metric) => metric.title },
      {
        title: "Value",
        value: (metric) => estimateOf(model, metric),
        cell: (metric) => metricCell(model, metric, null)[0],
      },
      {
        title: "95 % interval",
        value: (metric) => model.metrics[metric.name].low,
        cell: (metric) => intervalOf(model.metrics[metric.name]) ?? NOTHING,
      },
      { title: "Meaning", text: true, value: (metric) => metric.help, cell: (metric) => metric.help },
    ],
    rows: report.metrics.filter((metric) => model.metrics[metric.name]),
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
