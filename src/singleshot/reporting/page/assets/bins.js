// Pure functions of a model's fine bins {count, correct, confidence}, where bin i holds the examples with a confidence in
// (i / n, (i + 1) / n] and the first bin also those of confidence 0; and of the variance bins of its passes.

/** Merges the fine bins into equal-width bins; their number must divide that of the fine bins. */
function coarseBins(fine, bins) {
  const wide = fine.count.length / bins;
  return Array.from({ length: bins }, (_, index) => {
    const total = (values) => sum(values.slice(index * wide, (index + 1) * wide));
    const count = total(fine.count), correct = total(fine.correct);
    return {
      lower: index / bins,
      upper: (index + 1) / bins,
      count,
      correct,
      accuracy: count ? correct / count : null, // an empty bin has no accuracy and no confidence
      confidence: count ? total(fine.confidence) / count : null,
    };
  });
}

const MAX_BARS = 20;

/** Merges the variance bins into at most 20 bars of equal width, up to the last non-empty bin. */
function passesBars(passes) {
  const inUse = passes.count.findLastIndex((count) => count > 0) + 1;
  const wide = Math.ceil(inUse / MAX_BARS);
  return Array.from({ length: Math.ceil(inUse / wide) }, (_, index) => {
    const from = index * wide, until = Math.min(from + wide, passes.count.length);
    const counts = passes.count.slice(from, until), count = sum(counts);
    const mean = (values) => (count ? sum(counts.map((some, k) => some && some * values[from + k])) / count : null);
    return {
      lower: passes.lower[from],
      upper: passes.upper[until - 1],
      count,
      accuracy: mean(passes.accuracy),
      score: mean(passes.score),
      coverage: passes.coverage[until - 1],
    };
  });
}

/** The calibration errors that the bins decide, by the names of the metrics. */
function calibrationErrors(bins) {
  const filled = bins.filter((bin) => bin.count);
  const gaps = filled.map((bin) => bin.confidence - bin.accuracy);
  const examples = sum(filled.map((bin) => bin.count));
  const mean = (part) => (examples ? sum(gaps.map((gap, index) => part(gap) * filled[index].count)) / examples : null);
  return {
    ece: mean(Math.abs),
    mce: examples ? Math.max(...gaps.map(Math.abs)) : null,
    rmsce: examples ? Math.sqrt(mean((gap) => gap * gap)) : null,
    overconfidence: mean((gap) => Math.max(gap, 0)),
    underconfidence: mean((gap) => Math.max(-gap, 0)),
  };
}

/** Wilson's 95 % interval of the accuracy of a bin. */
function wilson({ accuracy, count }) {
  const correct = Math.round(accuracy * count);
  const z = 1.959963984540054, middle = (correct + z * z / 2) / (count + z * z);
  const half = z / (count + z * z) * Math.sqrt(correct * (1 - correct / count) + z * z / 4);
  return { low: correct ? Math.max(0, middle - half) : 0, high: correct < count ? Math.min(1, middle + half) : 1 };
}

function sum(values) {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
