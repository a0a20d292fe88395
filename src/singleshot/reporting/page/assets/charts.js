// SVG charts without a library: they need only axes, bars and lines, and the page stays small.

// Colours (classes in base.css), dashes and markers cycle with different lengths, as in report/figures.py.
const COLOURS = 7;
const DASHES = ["", "6 3", "7 3 2 3", "2 3", "7 2 2 2 2 2"];
const MARKERS = [
  "M-3.2,0a3.2,3.2 0 1,0 6.4,0a3.2,3.2 0 1,0 -6.4,0Z",
  "M-3,-3h6v6h-6Z",
  "M0,-3.6L3.4,2.6h-6.8Z",
  "M0,-4L4,0L0,4L-4,0Z",
  "M0,3.6L3.4,-2.6h-6.8Z",
  "M-1.3,-3.8h2.6v2.5h2.5v2.6h-2.5v2.5h-2.6v-2.5h-2.5v-2.6h2.5Z",
  "M-3.6,-2L-2,-3.6L0,-1.6L2,-3.6L3.6,-2L1.6,0L3.6,2L2,3.6L0,1.6L-2,3.6L-3.6,2L-1.6,0Z",
  "M0,-4.2L1.1,-1.4L4,-1.3L1.7,.6L2.5,3.4L0,1.8L-2.5,3.4L-1.7,.6L-4,-1.3L-1.1,-1.4Z",
];

function seriesClass(index) {
  return `series-${index % COLOURS}`;
}

/** A legend entry: a short piece of a model's line with its marker. */
function lineSample(index) {
  return shape("svg", {
    class: `sample ${seriesClass(index)}`,
    viewBox: "0 0 28 12",
    width: 28,
    height: 12,
    "aria-hidden": "true",
  },
    shape("line", { x1: 0, y1: 6, x2: 28, y2: 6, class: "line", "stroke-dasharray": DASHES[index % DASHES.length] }),
    shape("path", { d: MARKERS[index % MARKERS.length], transform: "translate(14,6)", class: "marker" }));
}

function drawing(width, height, label) {
  return shape(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
  );
}

/** Ticks at round numbers: 1, 2, 2.5 or 5 times a power of ten apart. */
function roundTicks(low, high, number = 5) {
  const span = high - low || 1, rough = span / number, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-6; k += 1) ticks.push(k * step);
  return { ticks, step };
}

/** The first tick at or above a value. */
function roundedUp(value, number = 5) {
  const { step } = roundTicks(0, value || 1, number);
  return Math.ceil((value || 1) / step - 1e-9) * step;
}

const SHARES = { low: 0, high: 1, ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], step: 0.1 };

/**
 * Draws a frame with grid, ticks and labels. frame: {left, top, width, height}; x and y: {low, high, ticks?, step?,
 * label?, text?(tick), hideTicks?}. Returns the scales from values to pixels.
 */
function drawAxes(svg, frame, x, y) {
  const across = (value) => frame.left + ((value - x.low) / (x.high - x.low)) * frame.width;
  const up = (value) => frame.top + frame.height - ((value - y.low) / (y.high - y.low)) * frame.height;
  const bottom = frame.top + frame.height, right = frame.left + frame.width;
  const group = shape("g", { class: "axes", "aria-hidden": "true" });
  const ticksOf = (axis, number) => (axis.ticks ? axis : { ...axis, ...roundTicks(axis.low, axis.high, number) });
  const xs = ticksOf(x, Math.max(2, Math.round(frame.width / 70)));
  const ys = ticksOf(y, Math.max(2, Math.round(frame.height / 45)));
  for (const tick of ys.ticks) {
    group.append(shape("line", { class: "grid-line", x1: frame.left, x2: right, y1: up(tick), y2: up(tick) }));
    if (!y.hideTicks) group.append(shape(
      "text",
      { x: frame.left - 7, y: up(tick) + 3.5, class: "tick end" },
      y.text ? y.text(tick) : tickText(tick, ys.step),
    ));
  }
  for (const tick of xs.ticks) {
    if (x.grid !== false) group.append(shape(
      "line",
      { class: "grid-line", x1: across(tick), x2: across(tick), y1: frame.top, y2: bottom },
    ));
    if (!x.hideTicks) group.append(shape(
      "text",
      { x: across(tick), y: bottom + 15, class: "tick middle" },
      x.text ? x.text(tick) : tickText(tick, xs.step),
    ));
  }
  group.append(shape("line", { class: "axis-line", x1: frame.left, x2: right, y1: bottom, y2: bottom }));
  if (x.label) group.append(shape(
    "text",
    { x: frame.left + frame.width / 2, y: bottom + 32, class: "axis-label middle" },
    x.label,
  ));
  if (y.label) {
    const middle = frame.top + frame.height / 2;
    group.append(shape(
      "text",
      { transform: `translate(9,${middle}) rotate(-90)`, class: "axis-label middle" },
      y.label,
    ));
  }
  svg.append(group);
  return { across, up, bottom, right };
}

function rectangle(x1, x2, y1, y2, className) {
  return shape(
    "rect",
    { x: Math.min(x1, x2), y: Math.min(y1, y2), width: Math.abs(x2 - x1), height: Math.abs(y2 - y1), class: className },
  );
}

/** Shapes with a tooltip that covers their whole column. */
function column(x1, x2, top, bottom, sentence, ...shapes) {
  return shape("g", { class: "column" }, shape("title", {}, sentence), rectangle(x1, x2, top, bottom, "hit"), shapes);
}

/** A line through points [x, y] in pixels; null breaks it. */
function linePath(points) {
  let path = "", pen = "M";
  for (const point of points) {
    if (point === null) { pen = "M"; continue; }
    path += `${pen}${point[0].toFixed(2)},${point[1].toFixed(2)}`;
    pen = "L";
  }
  return path;
}

/** A model's curve with its colour, dashes and some markers. */
function modelLine(points, index, sentence) {
  const marks = [];
  const solid = points.filter((point) => point !== null);
  const every = Math.max(1, Math.floor(solid.length / 7));
  for (let k = Math.floor((every * (1 + (index % 3))) / 4); k < solid.length; k += every) {
    marks.push(shape(
      "path",
      {
        d: MARKERS[index % MARKERS.length],
        transform: `translate(${solid[k][0].toFixed(2)},${solid[k][1].toFixed(2)})`,
        class: "marker",
      },
    ));
  }
  return shape("g", { class: `model-line ${seriesClass(index)}` }, shape("title", {}, sentence),
    shape("path", { d: linePath(points), class: "line", "stroke-dasharray": DASHES[index % DASHES.length] }), marks);
}

const MAX_WIDTH = 720;
const PRINT_WIDTH = 340; // two charts side by side
let printing = false;

/** The width of a chart: that of its box, within readable limits. */
function widthOf(box) {
  return printing ? PRINT_WIDTH : Math.round(Math.min(MAX_WIDTH, Math.max(240, box.clientWidth || PRINT_WIDTH)));
}

/** The width of each chart in a grid with as many columns as fit. */
function gridWidth(box, figures, minimum = 320) {
  if (printing) return PRINT_WIDTH;
  const gap = 20, padding = 34, available = box.clientWidth || PRINT_WIDTH;
  const columns = Math.max(1, Math.min(figures, Math.floor((available + gap) / (Math.min(minimum, available) + gap))));
  box.style.setProperty("--columns", columns);
  return Math.round(Math.min(MAX_WIDTH, (available - gap * (columns - 1)) / columns - padding));
}
