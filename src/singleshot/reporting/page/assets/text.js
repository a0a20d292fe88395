// Numbers formatted for display. Pure functions.

const NOTHING = "–";

function isNumber(value) {
  return typeof value === "number"; // null is an unknown value
}

/** Fixed decimals, rounded like Python's formatting: ties go to the even digit. */
function fixed(value, digits) {
  if (value === null || value === undefined) return NOTHING;
  const rounded = value.toFixed(digits);
  const [, tail] = value.toFixed(Math.min(100, digits + 60)).split(".");
  if (!/^50*$/.test(tail.slice(digits)) || Number(rounded.at(-1)) % 2 === 0) return rounded;
  return (Number(rounded) - Math.sign(value) * 10 ** -digits).toFixed(digits); // toFixed rounds ties away from zero
}

/** A metric, formatted like the tables of the command line. */
function metricText(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value === Infinity) return "∞";
  return Math.abs(value) < 1000 ? fixed(value, 4) : fourDigits(value);
}

/** A number of magnitude 1000 or more, like Python's ".4g": 1235, 1.235e+05, 1e+30; ties as above. */
function fourDigits(value) {
  const [rounded, exponent] = value.toExponential(3).split("e+");
  const isTie = /^-?\d\.\d{3}50*e/.test(value.toExponential(100));
  const isOdd = Number(rounded.at(-1)) % 2 === 1;
  const digits = isTie && isOdd ? (Number(rounded) - Math.sign(value) * 0.001).toFixed(3) : rounded;
  if (Number(exponent) < 4) return String(Number(`${digits}e${exponent}`));
  return `${Number(digits)}e+${exponent.padStart(2, "0")}`;
}

function signedText(value) {
  if (value === null || value === undefined) return NOTHING;
  return (value < 0 ? "−" : "+") + metricText(Math.abs(value));
}

/** A percentage with one decimal, or with more so that only 0 and 1 are shown as 0 % and 100 %. */
function percentText(share) {
  if (share === null || share === undefined) return NOTHING;
  const percent = share * 100;
  let digits = 1;
  const looksWhole = () => share > 0 && share < 1 && [0, 100].includes(Number(fixed(percent, digits)));
  while (digits < 5 && looksWhole()) digits += 1;
  if (looksWhole()) return share < 0.5 ? "< 0.00001 %" : "> 99.99999 %";
  return `${fixed(percent, digits)} %`;
}

function countText(count) {
  return count.toLocaleString("en-US");
}

/** "1 example", "2 examples". */
function amountText(count, one, several = `${one}s`) {
  return `${countText(count)} ${count === 1 ? one : several}`;
}

/** A tick with as many decimals as its step needs. */
function tickText(value, step) {
  if (Math.abs(value) < step * 1e-6) value = 0; // not -0
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (value >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  if (step >= 1) return countText(Number(value.toFixed(1)));
  let digits = 1;
  while (digits < 8 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits += 1;
  return value.toFixed(digits);
}

/** A value of a recipe: lists and objects as JSON, others as text. */
function plainText(value) {
  if (value === null || value === undefined) return NOTHING;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
