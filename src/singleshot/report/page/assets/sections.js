// What each section of the page shows.

const TONES = { good: ["✓", "Good"], fair: ["≈", "Fair"], bad: ["✕", "Poor"], unclear: ["?", "Unclear"] };

const MOST_ON_PAPER = 30; // classes

/** What each section draws, and whether there is anything for it; in the order of the page. */
function sectionsOf(report, state) {
  const all = report.models.map((_, index) => index);
  const having = (part) => all.filter((index) => report.models[index][part]);
  const chosen = () => report.models[state.chosen];
  const among = (part) => report.models[having(part).includes(state.chosen) ? state.chosen : having(part)[0]];
  const shown = () => (state.shown === "all" ? all : [Number(state.shown)]);
  const body = (id) => find(`#${id} .body`);
  const fill = (id, ...children) => body(id).replaceChildren(...children.flat());

  return {
    verdicts: { there: true, draw: () => fill("verdicts", all.map((index) => verdictCard(report, index))) },
    metrics: { there: true, draw: () => fill("metrics", metricsParts(report)) },
    comparisons: { there: report.comparisons.length > 0, draw: () => fill("comparisons", comparisonParts(report)) },
    reliability: {
      there: true,
      draw: () => {
        const width = gridWidth(body("reliability"), shown().length);
        const figures = () => [...body("reliability").querySelectorAll("figure")];
        const unfolded = figures().filter((figure) => find("details[open]", figure));
        const open = new Set(unfolded.map((figure) => figure.dataset.model));
        fill("reliability", shown().map((index) => reliabilityFigure(report, index, state.bins, width)));
        figures().forEach((figure) => { find("details", figure).open = open.has(figure.dataset.model); });
      },
    },
    histogram: {
      there: true,
      draw: () => {
        const width = gridWidth(body("histogram"), shown().length);
        fill("histogram", shown().map((index) => histogramFigure(report, index, state.bins, state.logarithmic, width)));
      },
    },
    threshold: { there: true, draw: () => drawThreshold(report, state) },
    curves: {
      there: true,
      draw: () => {
        const width = gridWidth(body("curves"), 2, 420);
        const figure = (title, chart) => element("figure", { class: "panel" },
          element("figcaption", {}, element("strong", {}, title)), chart);
        fill("curves",
          figure("Risk–coverage", riskCoverageChart(report, state.hidden, width)),
          figure("Coverage of reliable predictions", coverageChart(report, state.hidden, width)),
          curvesNumbers(report));
      },
    },
    passes: {
      there: having("passes").length > 0,
      draw: () => {
        const width = gridWidth(body("passes"), having("passes").length);
        fill("passes", having("passes").map((index) => passesFigure(report, index, width)));
      },
    },
    classes: {
      there: true,
      draw: () => {
        const most = onPaper ? MOST_ON_PAPER : Infinity;
        const cut = chosen().classes_by_gap.length > most ? `. The ${most} worst of its classes` : "";
        fill("classes",
          onPaperOnly(`Model: ${chosen().name}${cut}`),
          scrollBox("Classes", classesTable(chosen(), most), "tall"));
        filterClasses(chosen());
      },
    },
    confusions: { there: true, draw: () => drawConfusions(chosen(), fill) },
    gallery: {
      there: having("gallery").length > 0,
      draw: () => fill("gallery", forPaper(among("gallery")), galleryParts(among("gallery"))),
    },
    training: {
      there: having("training").length > 0,
      draw: () => {
        const box = element("div", { class: "grid" });
        fill("training", forPaper(among("training")), box);
        box.replaceChildren(...trainingFigures(among("training"), gridWidth(box, 2)));
      },
    },
    recipe: { there: true, draw: () => fill("recipe", all.map((index) => recipePart(report, index))) },
  };
}

/** On paper there are no controls, so that what they were set to is said in words. */
function onPaperOnly(words) {
  return element("p", { class: "only-paper" }, words);
}

function forPaper(model) {
  return onPaperOnly(`Model: ${model.name}`);
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
        element("span", { class: "unseen" }, " calibration"),
      )),
    element("p", { class: "verdict" }, model.verdict),
    element("p", { class: "muted" }, model.about));
}

function metricsParts(report) {
  if (report.models.length === 1) return scrollBox("Metrics", metricsList(report));
  const at = (start) => report.metrics.slice(start, start + 5);
  const tables = onPaper ? [at(0), at(5), at(10)] : [report.metrics];
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

function drawConfusions(model, fill) {
  const threshold = model.confusion_threshold;
  find("#confusions-lead").textContent =
    `Mistakes with a confidence of at least ${threshold}: what it is, and what it was taken for.`;
  const none = `There are none: no mistake of this model has a confidence of at least ${threshold}.`;
  fill("confusions", forPaper(model), model.confusions.length
    ? scrollBox("Confident mistakes", confusionsTable(model), "tall")
    : element("p", { class: "muted" }, none));
}

function recipePart(report, index) {
  const model = report.models[index];
  const facts = (title, values) => {
    const entries = Object.entries(values ?? {});
    const lines = entries.map(([name, value]) => [element("dt", {}, name), element("dd", {}, plainText(value))]);
    return lines.length ? element("div", {}, element("h3", {}, title), element("dl", { class: "facts" }, lines)) : null;
  };
  return element("details", { class: "panel recipe", open: report.models.length === 1, "data-model": model.name },
    element("summary", {}, modelName(report, index)),
    element("pre", { tabindex: "0", "aria-label": "Command" }, element("code", {}, model.command)),
    element(
      "div",
      { class: "split" },
      facts("Recipe", model.recipe),
      facts("Versions and machine", model.environment),
    ));
}
