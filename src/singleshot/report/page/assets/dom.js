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

const KEPT = new Map();

/** What the reader made of something that is drawn anew time and again: {order, open}. */
function kept(name) {
  if (!KEPT.has(name)) KEPT.set(name, {});
  return KEPT.get(name);
}

/** Something one click away; drawn anew it is as the reader left it, and open on paper. */
function unfolding(attributes, summary, memory, ...content) {
  const details = element("details", { ...attributes, open: onPaper || memory.open },
    element("summary", {}, summary), content);
  details.addEventListener("toggle", () => {
    if (details.isConnected && !onPaper) memory.open = details.open; // what paper unfolds is not the reader's
  });
  return details;
}

/** Numbers behind a chart, made when they are first seen; paper has no room for them. */
function numbersBehind(summary, makeTable, memory) {
  if (onPaper) return [];
  const details = unfolding({ class: "numbers" }, summary, memory);
  const fill = () => {
    if (details.open && details.childElementCount === 1) details.append(makeTable());
  };
  details.addEventListener("toggle", fill);
  fill();
  return details;
}

/** A table that scrolls in a box of its own, which the keyboard reaches. */
function scrollBox(label, table, className = "") {
  return element("div", { class: `scroll ${className}`, role: "region", tabindex: "0", "aria-label": label }, table);
}
