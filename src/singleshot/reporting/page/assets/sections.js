// The content of each section.

const SYMBOLS = { good: "✓", near: "✓", fair: "≈", bad: "✕", unclear: "?" };

const MAX_PRINTED_CLASSES = 30;

/** How to draw each section, and whether it is present; in page order. */
function sectionsOf(report, state) {
  const anyHas = (part) => modelsWith(report, part).length > 0;
  return {
    verdicts: { present: true, draw: () => fill("verdicts", verdictCards(report)) },
    metrics: { present: true, draw: () => fill("metrics", metricsParts(report, state)) },
    comparisons: { present: report.comparisons.length > 0, draw: () => fill("comparisons", comparisonParts(report)) },
    reliability: { present: true, draw: () => drawReliability(report, state) },
    histogram: { present: true, draw: () => drawHistograms(report, state) },
    threshold: { present: true, draw: () => drawThreshold(report, state) },
    curves: { present: true, draw: () => drawCurves(report, state) },
    passes: { present: anyHas("passes"), draw: () => drawPasses(report) },
    classes: { present: anyHas("classes_by_gap"), draw: () => drawClasses(chosenAmong(report, state, "classes_by_gap")) },
    confusions: {
      present: anyHas("confusions"),
      draw: () => drawConfusions(report, chosenAmong(report, state, "confusions")),
    },
    inspection: { present: anyHas("inspection"), draw: () => drawInspection(chosenAmong(report, state, "inspection")) },
    training: { present: anyHas("training"), draw: () => drawTraining(chosenAmong(report, state, "training")) },
    recipe: { present: true, draw: () => fill("recipe", recipeParts(report)) },
  };
}

function allModels(report) {
  return report.models.map((_, index) => index);
}

function modelsWith(report, part) {
  return allModels(report).filter((index) => report.models[index][part]);
}

/** The chosen model, or the first model with this part. */
function chosenAmong(report, state, part) {
  const some = modelsWith(report, part);
  return report.models[some.includes(state.chosen) ? state.chosen : some[0]];
}

/** The models of the diagrams. */
function shownModels(report, state) {
  return state.shown === "all" ? allModels(report) : [Number(state.shown)];
}

function bodyOf(id) {
  return find(`#${id} .body`);
}

function fill(id, ...children) {
  bodyOf(id).replaceChildren(...children.flat(Infinity));
}

/** Print has no controls, so their state is printed as text. */
function printOnly(text) {
  return element("p", { class: "print-only" }, text);
}

function printedModel(model) {
  return printOnly(`Model: ${model.name}`);
}

function verdictCards(report) {
  return allModels(report).map((index) => verdictCard(report, index));
}

/** The badge and the sentences of the verdict, as `singleshot evaluate` prints them, and what to do. */
function verdictCard(report, index) {
  const model = report.models[index], [found, ...details] = model.sentences;
  return element("article", { class: `card ${model.level}`, "data-model": model.name },
    element("header", {}, modelName(report, index),
      element(
        "span",
        { class: `badge ${model.level}` },
        element("span", { "aria-hidden": "true" }, SYMBOLS[model.level]),
        ` ${model.badge}`,
      )),
    element("p", { class: "verdict" }, found),
    element("ul", { class: "details" }, details.map((sentence) => element("li", {}, sentence))),
    model.exception ? element("p", { class: "exception" }, model.exception) : null,
    nextStep(model.next_step),
    element("p", { class: "muted" }, model.about));
}

/** How far to trust the scores, what to do, and what to expect from it. */
function nextStep({ trust, action, commands, needs, gain }) {
  return element("div", { class: "next" },
    element("h3", {}, "What to do"),
    element("p", {}, trust, action ? ` ${action}` : null),
    commands.length ? commandLines(commands) : null,
    needs ? element("p", { class: "muted" }, needs) : null,
    gain ? element("p", { class: "gain" }, gainText(gain)) : null);
}

function gainText({ method, temperature, count, how, ece, nll, badge }) {
  const change = (name, [before, after]) => `${name} ${metricText(before)} → ${metricText(after)}`;
  const name = method === "temperature" ? `a temperature${temperature === null ? "" : ` of ${fixed(temperature, 2)}`}` : method;
  return `Expected of ${name}: ${change("ECE", ece)}, ${change("NLL", nll)}, `
    + `verdict “${badge}”. Estimate: ${how} (${amountText(count, "example")}).`;
}

function metricsParts(report, state) {
  const main = report.metrics.filter((metric) => metric.main), isAll = printing || state.allMetrics;
  const shown = isAll ? report.metrics : main, { bins } = state;
  const at = (start) => report.metrics.slice(start, start + 5);
  const tables = printing ? [at(0), at(5), at(10)] : [shown]; // a single one would be too wide for print
  return [
    binsNote(report, bins),
    report.models.length === 1
      ? scrollBox("Metrics", metricsList(report, shown, bins))
      : tables.map((metrics) => scrollBox("Metrics", metricsTable(report, metrics, bins))),
    printing ? [] : allMetricsButton(report, state),
    report.models.length === 1 ? [] : metricMeanings(report),
  ];
}

/** With other bins than those of the report, only what the bins decide is computed in the browser. */
function binsNote(report, bins) {
  if (bins === report.default_bins) return [];
  return element("p", { class: "muted", id: "bins-note" },
    `ECE, MCE, RMSCE, over- and underconfidence are for ${amountText(bins, "bin")}, as in the diagrams. Intervals and the `
    + `other ECEs need the examples: use singleshot report --bins ${bins}.`);
}

function allMetricsButton(report, state) {
  const change = () => {
    state.allMetrics = !state.allMetrics;
    fill("metrics", metricsParts(report, state));
    find("#all-metrics").focus();
  };
  return element(
    "button",
    { type: "button", id: "all-metrics", class: "control", "aria-expanded": String(state.allMetrics), click: change },
    state.allMetrics ? "Show fewer metrics" : `Show all ${report.metrics.length} metrics`,
  );
}

function comparisonParts(report) {
  const made = report.comparisons.some((pair) => pair.differences.length);
  const notes = report.comparisons.filter((pair) => pair.why).map((pair) => element("li", {}, pair.why));
  return [
    made ? scrollBox("Comparisons", comparisonsTable(report)) : [],
    notes.length ? element("ul", { class: "notes" }, notes) : [],
  ];
}

function drawThreshold(report, state) {
  const model = report.models[state.chosen], threshold = report.thresholds[state.threshold];
  find("#threshold-tiles").replaceChildren(...thresholdTiles(model, state.threshold));
  find("#threshold-print").replaceChildren(printOnly(`Model: ${model.name}. Minimum confidence: ${threshold}`));
  const box = find("#threshold-chart");
  box.replaceChildren(thresholdChart(report, model, state.threshold, widthOf(box)));
  if (state.answered !== model) drawGuarantee(report, state); // it does not depend on the threshold, and may have the focus
  if (report.models.length === 1) return;
  find("#threshold-all").replaceChildren(
    element("h3", {}, `All models at a minimum confidence of ${threshold}`),
    scrollBox("All models at this threshold", thresholdTable(report, state.threshold)));
}

function drawGuarantee(report, state) {
  const model = report.models[state.chosen];
  state.answered = model;
  if (state.target === null) {
    const hint = "The target accuracy must be between 0 and 100 %, exclusive.";
    find("#guarantee").replaceChildren(element("p", { class: "answer bad", "data-value": "guarantee" }, hint));
    find("#guarantee-all").replaceChildren();
    return;
  }
  const printed = printOnly(`Model: ${model.name}. Target accuracy: ${shortPercent(state.target)}`);
  const parts = guaranteeAnswer(report, model, state.target, (threshold) => {
    find("#threshold-range").value = report.thresholds.indexOf(threshold);
    find("#threshold-range").dispatchEvent(new Event("input"));
  });
  find("#guarantee").replaceChildren(printed, ...parts.filter(Boolean));
  if (report.models.length === 1) return;
  find("#guarantee-all").replaceChildren(element("h3", {}, "All models for this accuracy"),
    scrollBox("All models for this accuracy", guaranteeTable(report, state.target)));
}

function drawReliability(report, state) {
  const shown = shownModels(report, state), width = gridWidth(bodyOf("reliability"), shown.length);
  fill("reliability", shown.map((index) => reliabilityFigure(report, index, state.bins, width)));
}

function drawHistograms(report, state) {
  const shown = shownModels(report, state), width = gridWidth(bodyOf("histogram"), shown.length);
  fill("histogram", shown.map((index) => histogramFigure(report, index, state.bins, state.logarithmic, width)));
}

function drawCurves(report, state) {
  const width = Math.min(900, gridWidth(bodyOf("curves"), 1));
  fill("curves",
    element("figure", { class: "panel" }, riskCoverageChart(report, state.hidden, width)),
    curvesNumbers(report));
}

function drawPasses(report) {
  const some = modelsWith(report, "passes"), width = gridWidth(bodyOf("passes"), some.length);
  fill("passes", some.map((index) => passesFigure(report, index, width)));
}

function drawClasses(model) {
  const text = classFilter(), all = model.classes_by_gap, found = foundClasses(model, text);
  const sentences = [
    `Model: ${model.name}`,
    text ? `Filtered by “${text}”: ${countText(found.length)} of ${countText(all.length)} classes` : null,
    found.length > MAX_PRINTED_CLASSES ? `The ${MAX_PRINTED_CLASSES} worst ${text ? "of these" : "classes"}` : null,
  ];
  fill("classes",
    printOnly(sentences.filter(Boolean).join(". ")),
    scrollBox("Classes", classesTable(model, printing ? found.slice(0, MAX_PRINTED_CLASSES) : all), "tall"));
  filterClasses(model);
}

function drawConfusions(report, model) {
  const threshold = report.confusion_threshold;
  find("#confusions-lead").textContent =
    `Mistakes with a confidence of at least ${threshold}: the label and the predicted class.`;
  const none = `None: no mistake of this model has a confidence of at least ${threshold}.`;
  fill("confusions", printedModel(model), model.confusions.length
    ? scrollBox("Confident mistakes", confusionsTable(model), "tall")
    : element("p", { class: "muted" }, none));
}

function drawInspection(model) {
  fill("inspection", printedModel(model), inspectionParts(model));
}

function drawTraining(model) {
  const box = element("div", { class: "grid" });
  fill("training", printedModel(model), box, trainingNumbers(model)); // inserted first, so that its width is known
  box.replaceChildren(...trainingFigures(model, gridWidth(box, 2)));
}

function recipeParts(report) {
  const page = report.command === null ? [] : [
    element("h3", {}, "This page"),
    commandLines([report.command]),
    element("h3", {}, "The numbers of each model"),
  ];
  return [...page, ...allModels(report).map((index) => recipePart(report, index))];
}

function recipePart(report, index) {
  const model = report.models[index], memory = memoryOf(`recipe of ${model.name}`);
  memory.open ??= report.models.length === 1;
  return disclosure({ class: "panel recipe", "data-model": model.name }, modelName(report, index), memory,
    commandLines([model.command]),
    element(
      "div",
      { class: "split" },
      facts("Recipe", model.recipe),
      facts("File", model.file),
      facts("Versions and machine", model.environment),
    ));
}

/** Commands that are broken between words only, so that a flag stays whole. */
function commandLines(commands) {
  const words = (command) => command.split(" ").flatMap((word, index) =>
    [index ? " " : null, element("span", { class: "word" }, word)]);
  return element(
    "pre",
    { class: "command", tabindex: "0", "aria-label": "Command" },
    commands.map((command) => element("code", {}, words(command))),
  );
}

function facts(title, values) {
  const lines = Object.entries(values ?? {})
    .map(([name, value]) => [element("dt", {}, name), element("dd", {}, plainText(value))]);
  return lines.length ? element("div", {}, element("h3", {}, title), element("dl", { class: "facts" }, lines)) : null;
}
