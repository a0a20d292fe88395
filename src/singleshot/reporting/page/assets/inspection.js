// The most confident mistakes and the least confident correct predictions: images if there are any, otherwise a table.

function inspectionParts({ inspection: { mistakes, correct } }) {
  return [
    inspectionPart(mistakes, "The most confident mistakes", "None: this model makes no mistakes on these examples.",
      (example) => `label: ${example.label}`),
    inspectionPart(correct, "The least confident correct predictions", "None: no prediction of this model is correct.",
      () => "correct"),
  ];
}

function inspectionPart(examples, title, none, outcome) {
  return element("div", { class: "inspection-part" }, element("h3", {}, title), inspectedExamples());

  function inspectedExamples() {
    if (!examples.length) return element("p", { class: "muted" }, none);
    if (examples.some((example) => example.image === null)) return scrollBox(title, inspectionTable(examples, title), "low");
    return element("ul", { class: "inspected" }, examples.map((example) => inspectedExample(example, outcome(example))));
  }
}

function inspectionTable(examples, title) {
  return sortableTable({
    caption: title,
    memory: memoryOf(title),
    columns: [
      {
        title: "Row",
        help: "Row of the file, counted from 0",
        first: "ascending",
        value: (example) => example.index,
        cell: (example) => String(example.index),
      },
      { title: "Score", value: (example) => example.confidence, cell: (example) => percentText(example.confidence) },
      { title: "Predicted", text: true, value: (example) => example.predicted, cell: (example) => example.predicted },
      { title: "Label", text: true, value: (example) => example.label, cell: (example) => example.label },
    ].slice(0, examples[0].label === null ? 2 : 4), // without classes, it is only known which predictions are right
    rows: examples,
  });
}

function inspectedExample(example, outcome) {
  return element("li", {}, element("figure", {},
    inspectedImage(example),
    element(
      "figcaption",
      {},
      element("strong", { title: example.predicted }, example.predicted),
      element("span", {}, `score ${percentText(example.confidence)}`),
      element("span", { class: "muted", title: outcome }, outcome),
    )));
}

function inspectedImage({ image, index }) {
  // Only embedded images are shown: any other source would cause a request.
  const source = image.startsWith("data:image/png;base64,") ? image : "data:,";
  return element("img", { src: source, alt: `Example ${index}`, title: `Example ${index}`, decoding: "async" });
}
