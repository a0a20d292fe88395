// Entry point. All data come from the JSON in #data and are inserted as text nodes and attributes.
//
// Selectors for tests and scripts. A <data> element has the full number in `value` and the rounded one as text:
//   .card[data-model=NAME]                      the verdict: .badge, .verdict, .details li, .next
//   #theme                                      button, switches between light and dark (html[data-theme])
//   #metrics tr[data-model=NAME] [data-metric=M]  <data>, the estimate; th[aria-sort] > button sorts
//   #all-metrics                                button, shows all metrics or the main ones
//   #shown                                      select: "all" or the model's index, for reliability and histogram
//   #bins                                       range over the indices of bin_choices; #bins-number shows the number of bins
//   #reliability figure[data-model=NAME]        the diagrams shown; [data-model=NAME][data-value=ece|mce] <data>
//   #log                                        checkbox, logarithmic counts
//   [data-picker]                               selects of a model's index, in sync
//   #threshold-range, #threshold-number         index of a threshold, and the threshold; arrow keys move to the next one
//   #threshold-tiles [data-value=coverage|accuracy|mistakes|rejected]   <data> with data-model
//   #threshold-all tr[data-model=NAME]          every model at that threshold
//   #target                                     number, an accuracy in percent; [data-value=guarantee] message; #try-threshold
//   #curves .legend button[data-model=NAME]     aria-pressed: shown or not; path.line in the charts
//   #passes figure[data-model=NAME]             the bars of the stochastic passes
//   #classes tr[data-class=NAME], #class-filter, #class-count
//   details.numbers                             table of a chart's numbers, in #reliability, #curves, #passes, #training
//   #inspection li img, #inspection tbody tr    an example's image, or a row of a table without images
//   html[data-ready]                            everything is drawn

const CHARTS = ["reliability", "histogram", "threshold", "curves", "passes", "training"]; // redrawn when the width changes
const REDRAWN_FOR_PRINT = [...CHARTS, "metrics", "classes", "recipe"]; // narrower, shorter, or opened

function start() {
  const report = JSON.parse(find("#data").textContent);
  const state = {
    chosen: 0, // index of the model in sections about a single model
    shown: "all",
    bins: report.default_bins,
    logarithmic: true,
    allMetrics: false, // or only the main ones
    threshold: nearestThreshold(report.thresholds, 0.9), // an index
    target: 0.95, // accuracy
    answered: null, // the model whose threshold for the target is shown
    hidden: new Set(), // indices of models without curves
  };
  if (report.models.length === 1) document.documentElement.dataset.alone = "";
  const sections = sectionsOf(report, state);
  wireTheme();
  drawHead(report, sections);
  wireControls(report, state, sections);
  const draw = drawAsSeen(sections);
  wirePrint(sections, draw);
  wireWidth(sections);
}

function drawHead(report, sections) {
  const version = `singleshot ${report.singleshot}`;
  find("#made").textContent = `${amountText(report.models.length, "model")} · created ${report.made} with ${version}`;
  find("#foot").textContent = `Created with ${version}. This file is self-contained: it needs no network and no other files.`;
  for (const [id, section] of Object.entries(sections)) {
    find(`#${id}`).hidden = !section.present;
    if (section.present) find("#contents").append(element("a", { href: `#${id}` }, find(`#${id} h2`).textContent));
  }
}

/** Draws visible sections now, and the rest when they come near or the browser is idle. Returns a function to draw one. */
function drawAsSeen(sections) {
  const near = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target.id)),
    { rootMargin: "400px" },
  );
  const draw = (id) => {
    if (!sections[id].present || sections[id].drawn) return;
    sections[id].drawn = true;
    sections[id].draw();
    near.unobserve(find(`#${id}`));
  };
  draw("verdicts");
  draw("metrics");
  Object.keys(sections).forEach((id) => near.observe(find(`#${id}`)));
  drawWhenIdle(Object.keys(sections), draw);
  return draw;
}

function drawWhenIdle([id, ...rest], draw) {
  const whenIdle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
  whenIdle(() => {
    draw(id);
    if (rest.length) drawWhenIdle(rest, draw);
    else document.documentElement.dataset.ready = "";
  }, { timeout: 200 });
}

function redraw(sections, ids) {
  ids.filter((id) => sections[id].drawn).forEach((id) => sections[id].draw());
}

/** Before printing, draws all sections in their print version. */
function wirePrint(sections, draw) {
  addEventListener("beforeprint", () => {
    printing = true;
    Object.keys(sections).forEach(draw);
    redraw(sections, REDRAWN_FOR_PRINT);
  });
  addEventListener("afterprint", () => {
    printing = false;
    redraw(sections, REDRAWN_FOR_PRINT);
  });
}

function wireWidth(sections) {
  let width = innerWidth, timer = 0;
  addEventListener("resize", () => {
    if (innerWidth === width || printing) return; // on a phone, scrolling changes the height
    width = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(() => redraw(sections, CHARTS), 150);
  });
}

addEventListener("DOMContentLoaded", start);
