// Pictures of what went wrong with confidence, and of what went right without.

function galleryParts({ gallery }) {
  const words = (shot, truth) => [shot.predicted, `${percentText(shot.confidence)} sure`, truth];
  return [
    galleryPart(gallery.mistakes, "The most confident mistakes", "None: this model makes no mistakes here.",
      (shot) => words(shot, `is ${shot.label}`)),
    galleryPart(gallery.hits, "The least confident hits", "None: this model gets nothing right here.",
      (shot) => words(shot, "and right")),
  ];
}

function galleryPart(shots, title, none, words) {
  return element("div", { class: "gallery-part" }, element("h3", {}, title),
    shots.length
      ? element("ul", { class: "gallery" }, shots.map((shot) => galleryShot(shot, words(shot))))
      : element("p", { class: "muted" }, none));
}

function galleryShot(shot, [predicted, sure, truth]) {
  // Anything but an embedded picture would be a request that leaves the page.
  const source = shot.image.startsWith("data:image/png;base64,") ? shot.image : "data:,";
  return element("li", {}, element("figure", {},
    element("img", { src: source, alt: `Example ${shot.index}`, title: `Example ${shot.index}`, decoding: "async" }),
    element(
      "figcaption",
      {},
      element("strong", { title: predicted }, predicted),
      element("span", { class: "sure" }, sure),
      element("span", { class: "muted", title: truth }, truth),
    )));
}
