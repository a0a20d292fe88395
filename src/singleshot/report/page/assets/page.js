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
//   #threshold-range, #threshold-number         the place of a threshold among those that can be tried, and itself
//   #threshold-tiles [data-value=coverage|accuracy|mistakes|held-back]   <data> with data-model
//   #threshold-all tr[data-model=NAME]          every model at that threshold
//   #wanted                                     number, an accuracy in percent; [data-value=guarantee] message; #try-threshold
//   #curves .legend button[data-model=NAME]     aria-pressed: shown or not; path.line in the charts
//   #classes tr[data-class=NAME], #class-filter, #class-count
//   html[data-ready]                            everything is drawn

const CHARTS = ["reliability", "histogram", "threshold", "curves", "passes", "training"]; // drawn to the width there is
const LONG = ["metrics", "classes"]; // tables that paper has no room for

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
  drawAsSeen(sections);
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

/** What is seen is drawn at once, the rest when it comes near or the browser is idle, and all before printing. */
function drawAsSeen(sections) {
  const draw = (id) => {
    if (!sections[id].there || sections[id].drawn) return;
    sections[id].drawn = true;
    sections[id].draw();
    near.unobserve(find(`#${id}`));
  };
  const near = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target.id)),
    { rootMargin: "400px" },
  );
  draw("verdicts");
  draw("metrics");
  Object.keys(sections).forEach((id) => near.observe(find(`#${id}`)));

  const idly = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
  const rest = Object.keys(sections);
  const next = () => {
    if (rest.length) {
      draw(rest.shift());
      idly(next, { timeout: 200 });
    } else {
      document.documentElement.dataset.ready = "";
    }
  };
  idly(next, { timeout: 200 });

  const redraw = (ids) => ids.filter((id) => sections[id].drawn).forEach((id) => sections[id].draw());
  addEventListener("beforeprint", () => {
    onPaper = true;
    Object.keys(sections).forEach(draw);
    redraw([...CHARTS, ...LONG]);
    for (const details of document.querySelectorAll("details.recipe, details.numbers:has(dl)")) {
      details.dataset.wasOpen = details.open;
      details.open = true;
    }
  });
  addEventListener("afterprint", () => {
    onPaper = false;
    redraw([...CHARTS, ...LONG]);
    for (const details of document.querySelectorAll("details[data-was-open]")) {
      details.open = details.dataset.wasOpen === "true";
    }
  });

  let width = innerWidth, later = 0;
  addEventListener("resize", () => {
    if (innerWidth === width || onPaper) return; // on a phone the height changes with every scroll
    width = innerWidth;
    clearTimeout(later);
    later = setTimeout(() => redraw(CHARTS), 150);
  });
}

addEventListener("DOMContentLoaded", start);
