// Calibration by class, and confident confusions.

/** The classes whose names contain the text, ignoring case. */
function foundClasses(model, words) {
  return model.classes_by_gap.filter((row) => row.class.toLowerCase().includes(words));
}

function classesTable(model, rows) {
  const maximum = Math.max(0.01, ...model.classes_by_gap.map((row) => Math.abs(row.gap)));
  return sortableTable({
    caption: `Calibration of the classes predicted by ${model.name}, worst first`,
    memory: memoryOf("classes"),
    columns: [
      { title: "Class", text: true, value: (row) => row.class, cell: (row) => row.class },
      {
        title: "Predicted",
        help: "Examples predicted as this class",
        value: (row) => row.count,
        cell: (row) => countText(row.count),
      },
      {
        title: "Confidence",
        help: "Mean confidence of these predictions",
        value: (row) => row.confidence,
        cell: (row) => percentText(row.confidence),
      },
      {
        title: "Accuracy",
        help: "Share of these predictions that are correct",
        value: (row) => row.accuracy,
        cell: (row) => percentText(row.accuracy),
      },
      {
        title: "Gap",
        help: "Confidence minus accuracy, in percentage points",
        value: (row) => row.gap,
        cell: (row) => gapCell(row.gap, maximum),
      },
    ],
    rows,
    rowAttributes: (row) => ({ "data-class": row.class }),
  });
}

/** A gap in percentage points, with a bar to the right for overconfidence and to the left for underconfidence. */
function gapCell(gap, maximum) {
  const half = (Math.abs(gap) / maximum) * 50;
  const bar = element("span", { class: gap > 0 ? "over" : "under" });
  bar.style.width = `${half}%`;
  bar.style.left = `${gap > 0 ? 50 : 50 - half}%`;
  const sign = gap < 0 ? "−" : "+";
  return [
    element("span", { class: "gap-text" }, `${sign}${fixed(Math.abs(gap) * 100, 1)}`),
    element("span", { class: "gap-bar", "aria-hidden": "true" }, bar),
    element("span", { class: "unseen" }, gap > 0 ? " overconfident" : gap < 0 ? " underconfident" : ""),
  ];
}

function confusionsTable(model) {
  return sortableTable({
    caption: `Confident mistakes of ${model.name}`,
    memory: memoryOf("confusions"),
    columns: [
      { title: "Label", text: true, value: (row) => row.label, cell: (row) => row.label },
      { title: "Predicted", text: true, value: (row) => row.predicted, cell: (row) => row.predicted },
      { title: "Count", value: (row) => row.count, cell: (row) => countText(row.count) },
      { title: "Mean confidence", value: (row) => row.confidence, cell: (row) => percentText(row.confidence) },
    ],
    rows: model.confusions,
  });
}
