// The page's wiring. All data come from the JSON in #data and are shown by text nodes and attributes.
//
// For tests and scripts; a <data> element has its number in full in `value`, and rounded as its text:
//   #theme                                      button, switches light and dark (html[data-theme])
//   #metrics tr[data-model=NAME] [data-metric=M]  <data>, the estimate; th[aria-sort] > button sorts
//   #shown                                      select: "all" or the model's index, for reliability and histogram
//   #bins                                       range over the indices of bin_choices; #bins-number says how many bins
//   #reliability figure[data-model=NAME]        the diagrams shown; [data-model=NAME][data-value=ece|mce] <data>
//   #log                                        checkbox, logarithmic counts
//   [data-picker]                               selects of a model's index; one changes all
//   #threshold-range, #threshold-number         the place of a threshold among those that can be tried, and itself;
//                                               arrow keys go from one to the next in both
//   #threshold-tiles [data-value=coverage|accuracy|mistakes|held-back]   <data> with data-model
//   #threshold-all tr[data-model=NAME]          every model at that threshold
//   #wanted                                     number, an accuracy in percent; [data-value=guarantee] message; #try-threshold
//   #curves .legend button[data-model=NAME]     aria-pressed: shown or not; path.line in the charts
//   #passes figure[data-model=NAME]             the bars of its passes
//   #classes tr[data-class=NAME], #class-filter, #class-count
//   details.numbers                             numbers behind a chart, in #reliability, #curves, #passes, #training
//   #gallery li img, #gallery li .row           an example's picture, or its row where there is none
//   html[data-ready]                            everything is drawn

const CHARTS = ["reliability", "histogram", "threshold", "curves", "passes", "training"]; // drawn to the width there is
const OTHERWISE_ON_PAPER = [...CHARTS, "metrics", "classes", "recipe"]; // narrower, shorter, or unfolded

function start() {
  const report = JSON.parse(find("#data").textContent);
  const state = {
    chosen: 0, // the model of the sections about one
    shown: "all",
    bins: report.default_bins,
    logarithmic: false,
    threshold: nearestThreshold(report.thresholds, 0.9), // its place among them
    wanted: 0.95, // an accuracy
    answered: null, // the model whose threshold for it is shown
    hidden: new Set(), // models whose curves are switched off
  };
  if (report.models.length === 1) document.documentElement.dataset.alone = "";
  const sections = sectionsOf(report, state);
  wireTheme();
  drawHead(report, sections);
  wireControls(report, state, sections);
  const draw = drawAsSeen(sections);
  wirePaper(sections, draw);
  wireWidth(sections);
}

function drawHead(report, sections) {
  const version = `singleshot ${report.singleshot}`;
  find("#made").textContent = `${amountText(report.models.length, "model")} · made ${report.made} with ${version}`;
  find("#foot").textContent = `Made by ${version}. This file needs nothing else: no network, no other file.`;
  for (const [id, section] of Object.entries(sections)) {
    find(`#${id}`).hidden = !section.there;
    if (section.there) find("#contents").append(element("a", { href: `#${id}` }, find(`#${id} h2`).textContent));
  }
}

/** What is seen is drawn at once, the rest when it comes near or the browser is idle. Gives what draws a section. */
function drawAsSeen(sections) {
  const near = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target.id)),
    { rootMargin: "400px" },
  );
  const draw = (id) => {
    if (!sections[id].there || sections[id].drawn) return;
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
  const idly = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
  idly(() => {
    draw(id);
    if (rest.length) drawWhenIdle(rest, draw);
    else document.documentElement.dataset.ready = "";
  }, { timeout: 200 });
}

function redraw(sections, ids) {
  ids.filter((id) => sections[id].drawn).forEach((id) => sections[id].draw());
}

/** All is drawn before printing, as paper wants it. */
function wirePaper(sections, draw) {
  addEventListener("beforeprint", () => {
    onPaper = true;
    Object.keys(sections).forEach(draw);
    redraw(sections, OTHERWISE_ON_PAPER);
  });
  addEventListener("afterprint", () => {
    onPaper = false;
    redraw(sections, OTHERWISE_ON_PAPER);
  });
}

function wireWidth(sections) {
  let width = innerWidth, later = 0;
  addEventListener("resize", () => {
    if (innerWidth === width || onPaper) return; // on a phone the height changes with every scroll
    width = innerWidth;
    clearTimeout(later);
    later = setTimeout(() => redraw(sections, CHARTS), 150);
  });
}

addEventListener("DOMContentLoaded", start);
