// The most confident mistakes and the least confident correct predictions, with images if there are any.

function inspectionParts({ inspection: { mistakes, correct } }) {
  const hasRows = [...mistakes, ...correct].some((example) => example.image === null);
  return [
    inspectionPart(mistakes, "The most confident mistakes", "None: this model makes no mistakes on these examples.",
      (example) => `label: ${example.label}`),
    inspectionPart(correct, "The least confident correct predictions", "None: no prediction of this model is correct.",
      () => "correct"),
    hasRows ? element("p", { class: "muted rows" }, "Row numbers start at 0.") : [],
  ];
}

function inspectionPart(examples, title, none, outcome) {
  return element("div", { class: "inspection-part" }, element("h3", {}, title),
    examples.length
      ? element("ul", { class: "inspected" }, examples.map((example) => inspectedExample(example, outcome(example))))
      : element("p", { class: "muted" }, none));
}

function inspectedExample(example, outcome) {
  return element("li", {}, element("figure", {},
    example.image === null ? element("span", { class: "row" }, `row ${example.index}`) : inspectedImage(example),
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
