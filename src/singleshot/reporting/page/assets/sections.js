// The content of each section.

const TONES = {
  good: ["✓", "Calibrated"],
  fair: ["≈", "Somewhat off"],
  bad: ["✕", "Miscalibrated"],
  unclear: ["?", "Unclear"],
};

const MAX_PRINTED_CLASSES = 30;

/** How to draw each section, and whether it is present; in page order. */
function sectionsOf(report, state) {
  const anyHas = (part) => modelsWith(report, part).length > 0;
  const chosen = () => report.models[state.chosen];
  return {
    verdicts: { present: true, draw: () => fill("verdicts", verdictCards(report)) },
    metrics: { present: true, draw: () => fill("metrics", metricsParts(report)) },
    comparisons: { present: report.comparisons.length > 0, draw: () => fill("comparisons", comparisonParts(report)) },
    reliability: { present: true, draw: () => drawReliability(report, state) },
    histogram: { present: true, draw: () => drawHistograms(report, state) },
    threshold: { present: true, draw: () => drawThreshold(report, state) },
    curves: { present: true, draw: () => drawCurves(report, state) },
    passes: { present: anyHas("passes"), draw: () => drawPasses(report) },
    classes: { present: true, draw: () => drawClasses(chosen()) },
    confusions: { present: true, draw: () => drawConfusions(report, chosen()) },
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

function verdictCard(report, index) {
  const model = report.models[index], [symbol, word] = TONES[model.tone];
  return element("article", { class: `card ${model.tone}`, "data-model": model.name },
    element("header", {}, modelName(report, index),
      element(
        "span",
        { class: `badge ${model.tone}` },
        element("span", { "aria-hidden": "true" }, symbol),
        ` ${word}`,
      )),
    element("p", { class: "verdict" }, model.verdict),
    element("p", { class: "muted" }, model.about));
}

function metricsParts(report) {
  if (report.models.length === 1) return scrollBox("Metrics", metricsList(report));
  const at = (start) => report.metrics.slice(start, start + 5);
  const tables = printing ? [at(0), at(5), at(10)] : [report.metrics]; // a single one would be too wide for print
  return [...tables.map((metrics) => scrollBox("Metrics", metricsTable(report, metrics))), metricMeanings(report)];
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
  const width = gridWidth(bodyOf("curves"), 2, 420);
  const figure = (title, chart) => element("figure", { class: "panel" },
    element("figcaption", {}, element("strong", {}, title)), chart);
  fill("curves",
    figure("Risk–coverage", riskCoverageChart(report, state.hidden, width)),
    figure("Coverage of reliable predictions", coverageChart(report, state.hidden, width)),
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
    commandLine(report.command),
    element("h3", {}, "The numbers of each model"),
  ];
  return [...page, ...allModels(report).map((index) => recipePart(report, index))];
}

function recipePart(report, index) {
  const model = report.models[index], memory = memoryOf(`recipe of ${model.name}`);
  memory.open ??= report.models.length === 1;
  return disclosure({ class: "panel recipe", "data-model": model.name }, modelName(report, index), memory,
    commandLine(model.command),
    element(
      "div",
      { class: "split" },
      facts("Recipe", model.recipe),
      facts("File", model.file),
      facts("Versions and machine", model.environment),
    ));
}

function commandLine(command) {
  return element("pre", { class: "command", tabindex: "0", "aria-label": "Command" }, element("code", {}, command));
}

function facts(title, values) {
  const lines = Object.entries(values ?? {})
    .map(([name, value]) => [element("dt", {}, name), element("dd", {}, plainText(value))]);
  return lines.length ? element("div", {}, element("h3", {}, title), element("dl", { class: "facts" }, lines)) : null;
}
