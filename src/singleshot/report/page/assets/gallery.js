// What went wrong with confidence, and what went right without; in pictures, where there are some.

function galleryParts({ gallery }) {
  const isByRow = [...gallery.mistakes, ...gallery.hits].some((shot) => shot.image === null);
  const words = (shot, truth) => [shot.predicted, `${percentText(shot.confidence)} sure`, truth];
  return [
    galleryPart(gallery.mistakes, "The most confident mistakes", "None: this model makes no mistakes here.",
      (shot) => words(shot, `is ${shot.label}`)),
    galleryPart(gallery.hits, "The least confident hits", "None: this model gets nothing right here.",
      (shot) => words(shot, "and right")),
    isByRow ? element("p", { class: "muted rows" }, "Rows are counted from 0.") : [],
  ];
}

function galleryPart(shots, title, none, words) {
  return element("div", { class: "gallery-part" }, element("h3", {}, title),
    shots.length
      ? element("ul", { class: "gallery" }, shots.map((shot) => galleryShot(shot, words(shot))))
      : element("p", { class: "muted" }, none));
}

function galleryShot(shot, [predicted, sure, truth]) {
  return element("li", {}, element("figure", {},
    shot.image === null ? element("span", { class: "row" }, `row ${shot.index}`) : galleryPicture(shot),
    element(
      "figcaption",
      {},
      element("strong", { title: predicted }, predicted),
      element("span", { class: "sure" }, sure),
      element("span", { class: "muted", title: truth }, truth),
    )));
}

function galleryPicture({ image, index }) {
  // Anything but an embedded picture would be a request that leaves the page.
  const source = image.startsWith("data:image/png;base64,") ? image : "data:,";
  return element("img", { src: source, alt: `Example ${index}`, title: `Example ${index}`, decoding: "async" });
}
