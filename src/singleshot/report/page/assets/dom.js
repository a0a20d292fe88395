// Elements are made here and nowhere else: data go in as text nodes and attributes, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

function shape(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

function furnish(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (![null, undefined, false].includes(value)) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

function find(selector, within = document) {
  return within.querySelector(selector);
}

/** A number that tests and scripts can read in full: <data value="0.031224…">0.0312</data>. */
function number(value, text, attributes = {}) {
  return element("data", { value: value ?? "", ...attributes }, text);
}

/** Numbers behind a chart, one click away. */
function numbersBehind(summary, makeTable) {
  const details = element("details", { class: "numbers" }, element("summary", {}, summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(makeTable());
  });
  return details;
}

/** A table that scrolls in a box of its own, which the keyboard reaches. */
function scrollBox(label, table, className = "") {
  return element("div", { class: `scroll ${className}`, role: "region", tabindex: "0", "aria-label": label }, table);
}
