// Tables that are sorted by a click or a key on a column's header.

const OPPOSITE = { ascending: "descending", descending: "ascending" };

/**
 * columns: {title, help?, value(row) to sort by, cell(row) to show, text?: true, first?: "ascending" | "descending"}.
 * Numbers are sorted from the largest, text from A; missing values come last. `memory` keeps the order when the table is
 * redrawn; `shown` are the visible columns, and the order may be that of a hidden one.
 */
function sortableTable({ caption, columns, shown = columns, rows, rowAttributes = () => ({}), memory = {} }) {
  const body = element("tbody");
  const lines = rows.map((row) => ({
    row,
    line: element("tr", rowAttributes(row), shown.map((column, index) =>
      element(
        index ? "td" : "th",
        { class: column.text ? "text" : "number", scope: index ? null : "row" },
        column.cell(row),
      ))),
  }));
  const heads = shown.map((column) => {
    const arrow = element("span", { class: "arrow", "aria-hidden": "true" });
    const button = element(
      "button",
      { type: "button", title: column.help, click: () => changeOrder(column) },
      column.title,
      arrow,
    );
    return element("th", { scope: "col", class: column.text ? "text" : "number", "aria-sort": "none" }, button);
  });

  function changeOrder(column) {
    const first = column.first ?? (column.text ? "ascending" : "descending");
    const current = heads[shown.indexOf(column)].getAttribute("aria-sort");
    memory.order = { title: column.title, direction: current === "none" ? first : OPPOSITE[current] };
    sort();
  }

  function sort() {
    const { title, direction } = memory.order;
    const column = columns.find((one) => one.title === title), sign = direction === "ascending" ? 1 : -1;
    if (!column) return; // another model may not have this column
    heads.forEach((head, index) => head.setAttribute("aria-sort", shown[index] === column ? direction : "none"));
    const ordered = [...lines].sort((a, b) => compareValues(column.value(a.row), column.value(b.row), sign));
    body.append(...ordered.map(({ line }) => line));
  }

  body.append(...lines.map(({ line }) => line));
  if (memory.order) sort();
  return element("table", {},
    element("caption", { class: "unseen" }, caption), element("thead", {}, element("tr", {}, heads)), body);
}

function compareValues(a, b, sign) {
  const missing = (value) => value === null || value === undefined;
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  if (typeof a === "string") return sign * a.localeCompare(b, "en", { numeric: true });
  return sign * ((a > b) - (a < b)); // a - b fails for infinities
}

/** The name of a model with its colour, line and marker. */
function modelName(report, index) {
  return element(
    "span",
    { class: "model-name" },
    lineSample(index),
    element("span", { title: report.models[index].name }, report.models[index].name),
  );
}

/** The bins of a diagram. */
function binsTable(model, bins, memory) {
  return scrollBox(`Bins of ${model.name}`, sortableTable({
    caption: `Bins of ${model.name}`,
    memory,
    columns: [
      { title: "Confidence", text: true, value: (bin) => bin.lower, cell: (bin) => rangeText(bin) },
      { title: "Examples", value: (bin) => bin.count, cell: (bin) => countText(bin.count) },
      { title: "Correct", value: (bin) => bin.correct, cell: (bin) => countText(bin.correct) },
      { title: "Mean confidence", value: (bin) => bin.confidence, cell: (bin) => fixed(bin.confidence, 4) },
      { title: "Accuracy", value: (bin) => bin.accuracy, cell: (bin) => fixed(bin.accuracy, 4) },
      { title: "95 % interval", value: (bin) => bin.accuracy, cell: wilsonText },
    ],
    rows: bins,
  }), "low");
}

function wilsonText(bin) {
  if (!bin.count) return NOTHING;
  const { low, high } = wilson(bin);
  return `${fixed(low, 4)} – ${fixed(high, 4)}`;
}

function rangeText(bin) {
  const edge = (value) => String(Number(value.toFixed(4)));
  return `(${edge(bin.lower)}, ${edge(bin.upper)}]`;
}
