// What each section of the page shows.

const TONES = {
  good: ["✓", "Calibrated"],
  fair: ["≈", "Somewhat off"],
  bad: ["✕", "Miscalibrated"],
  unclear: ["?", "Unclear"],
};

const MOST_ON_PAPER = 30; // classes

/** What each section draws, and whether there is anything for it; in the order of the page. */
function sectionsOf(report, state) {
  const anyHas = (part) => having(report, part).length > 0;
  const chosen = () => report.models[state.chosen];
  return {
    verdicts: { there: true, draw: () => fill("verdicts", verdictCards(report)) },
    metrics: { there: true, draw: () => fill("metrics", metricsParts(report)) },
    comparisons: { there: report.comparisons.length > 0, draw: () => fill("comparisons", comparisonParts(report)) },
    reliability: { there: true, draw: () => drawReliability(report, state) },
    histogram: { there: true, draw: () => drawHistograms(report, state) },
    threshold: { there: true, draw: () => drawThreshold(report, state) },
    curves: { there: true, draw: () => drawCurves(report, state) },
    passes: { there: anyHas("passes"), draw: () => drawPasses(report) },
    classes: { there: true, draw: () => drawClasses(chosen()) },
    confusions: { there: true, draw: () => drawConfusions(report, chosen()) },
    gallery: { there: anyHas("gallery"), draw: () => drawGallery(chosenAmong(report, state, "gallery")) },
    training: { there: anyHas("training"), draw: () => drawTraining(chosenAmong(report, state, "training")) },
    recipe: { there: true, draw: () => fill("recipe", recipeParts(report)) },
  };
}

function everyone(report) {
  return report.models.map((_, index) => index);
}

function having(report, part) {
  return everyone(report).filter((index) => report.models[index][part]);
}

/** The chosen model, or the first that has such a part where it has none. */
function chosenAmong(report, state, part) {
  const some = having(report, part);
  return report.models[some.includes(state.chosen) ? state.chosen : some[0]];
}

/** The models of the diagrams. */
function shownModels(report, state) {
  return state.shown === "all" ? everyone(report) : [Number(state.shown)];
}

function bodyOf(id) {
  return find(`#${id} .body`);
}

function fill(id, ...children) {
  bodyOf(id).replaceChildren(...children.flat(Infinity));
}

/** On paper there are no controls, so that what they were set to is said in words. */
function onPaperOnly(words) {
  return element("p", { class: "only-paper" }, words);
}

function forPaper(model) {
  return onPaperOnly(`Model: ${model.name}`);
}

function verdictCards(report) {
  return everyone(report).map((index) => verdictCard(report, index));
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
  const tables = onPaper ? [at(0), at(5), at(10)] : [report.metrics]; // one would be too wide for paper
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
  find("#threshold-paper").replaceChildren(onPaperOnly(`Model: ${model.name}. Confidence of at least ${threshold}`));
  const box = find("#threshold-chart");
  box.replaceChildren(thresholdChart(report, model, state.threshold, widthOf(box)));
  if (state.answered !== model) drawGuarantee(report, state); // no threshold changes it, and the focus may be in it
  if (report.models.length === 1) return;
  find("#threshold-all").replaceChildren(
    element("h3", {}, `Every model at ${threshold} and above`),
    scrollBox("Every model at this threshold", thresholdTable(report, state.threshold)));
}

function drawGuarantee(report, state) {
  const model = report.models[state.chosen];
  state.answered = model;
  if (state.wanted === null) {
    const hint = "An accuracy to ask for lies between 0 and 100 %, both excluded.";
    find("#guarantee").replaceChildren(element("p", { class: "answer bad", "data-value": "guarantee" }, hint));
    find("#guarantee-all").replaceChildren();
    return;
  }
  const asked = onPaperOnly(`Model: ${model.name}. Wanted accuracy: ${shortPercent(state.wanted)}`);
  const parts = guaranteeAnswer(report, model, state.wanted, (threshold) => {
    find("#threshold-range").value = report.thresholds.indexOf(threshold);
    find("#threshold-range").dispatchEvent(new Event("input"));
  });
  find("#guarantee").replaceChildren(asked, ...parts.filter(Boolean));
  if (report.models.length === 1) return;
  find("#guarantee-all").replaceChildren(element("h3", {}, "Every model for this accuracy"),
    scrollBox("Every model for this accuracy", guaranteeTable(report, state.wanted)));
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
  const some = having(report, "passes"), width = gridWidth(bodyOf("passes"), some.length);
  fill("passes", some.map((index) => passesFigure(report, index, width)));
}

function drawClasses(model) {
  const words = classFilter(), all = model.classes_by_gap, found = foundClasses(model, words);
  const sentences = [
    `Model: ${model.name}`,
    words ? `Filtered by “${words}”: ${countText(found.length)} of ${countText(all.length)} classes` : null,
    found.length > MOST_ON_PAPER ? `The ${MOST_ON_PAPER} worst of ${words ? "these" : "its classes"}` : null,
  ];
  fill("classes",
    onPaperOnly(sentences.filter(Boolean).join(". ")),
    scrollBox("Classes", classesTable(model, onPaper ? found.slice(0, MOST_ON_PAPER) : all), "tall"));
  filterClasses(model);
}

function drawConfusions(report, model) {
  const threshold = report.confusion_threshold;
  find("#confusions-lead").textContent =
    `Mistakes with a confidence of at least ${threshold}: what it is, and what it was taken for.`;
  const none = `There are none: no mistake of this model has a confidence of at least ${threshold}.`;
  fill("confusions", forPaper(model), model.confusions.length
    ? scrollBox("Confident mistakes", confusionsTable(model), "tall")
    : element("p", { class: "muted" }, none));
}

function drawGallery(model) {
  fill("gallery", forPaper(model), galleryParts(model));
}

function drawTraining(model) {
  const box = element("div", { class: "grid" });
  fill("training", forPaper(model), box, trainingNumbers(model)); // in the page first, which knows how wide it is
  box.replaceChildren(...trainingFigures(model, gridWidth(box, 2)));
}

function recipeParts(report) {
  const page = report.command === null ? [] : [
    element("h3", {}, "This page"),
    commandLine(report.command),
    element("h3", {}, "The numbers"),
  ];
  return [...page, ...everyone(report).map((index) => recipePart(report, index))];
}

function recipePart(report, index) {
  const model = report.models[index], memory = kept(`recipe of ${model.name}`);
  memory.open ??= report.models.length === 1;
  return unfolding({ class: "panel recipe", "data-model": model.name }, modelName(report, index), memory,
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
