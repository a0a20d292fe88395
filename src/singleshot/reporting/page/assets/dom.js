// All elements are created here: data are inserted as text nodes and attributes, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...children) {
  return fillElement(document.createElement(tag), attributes, children);
}

function shape(tag, attributes = {}, ...children) {
  return fillElement(document.createElementNS(SVG, tag), attributes, children);
}

function fillElement(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (![null, undefined, false].includes(value)) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

function find(selector, within = document) {
  return within.querySelector(selector);
}

/** A number with its full value for tests and scripts: <data value="0.031224…">0.0312</data>. */
function number(value, text, attributes = {}) {
  return element("data", { value: value ?? "", ...attributes }, text);
}

const MEMORY = new Map();

/** Sort order and open state of a part that is redrawn: {order, open}. */
function memoryOf(name) {
  if (!MEMORY.has(name)) MEMORY.set(name, {});
  return MEMORY.get(name);
}

/** A <details> element that keeps its state when it is redrawn, and is open in print. */
function disclosure(attributes, summary, memory, ...content) {
  const details = element("details", { ...attributes, open: printing || memory.open },
    element("summary", {}, summary), content);
  details.addEventListener("toggle", () => {
    if (details.isConnected && !printing) memory.open = details.open;
  });
  return details;
}

/** The table of a chart's numbers, created when it is opened; not printed. */
function tableBehind(summary, makeTable, memory) {
  if (printing) return [];
  const details = disclosure({ class: "numbers" }, summary, memory);
  const fill = () => {
    if (details.open && details.childElementCount === 1) details.append(makeTable());
  };
  details.addEventListener("toggle", fill);
  fill();
  return details;
}

/** A table in a scrollable box that the keyboard can reach. */
function scrollBox(label, table, className = "") {
  return element("div", { class: `scroll ${className}`, role: "region", tabindex: "0", "aria-label": label }, table);
}
