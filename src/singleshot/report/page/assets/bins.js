// What the page computes: pure functions of a model's fine bins {count, correct, confidence}, of which bin i holds the
// examples with a confidence in (i / n, (i + 1) / n], and those of confidence 0 in the first.

/** As many equal-width bins as asked for, which must divide the number of fine ones. */
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

/** Expected and maximum calibration error. */
function calibrationErrors(bins) {
  const filled = bins.filter((bin) => bin.count);
  const gaps = filled.map((bin) => Math.abs(bin.confidence - bin.accuracy));
  const examples = sum(filled.map((bin) => bin.count));
  return {
    ece: examples ? sum(gaps.map((gap, index) => gap * filled[index].count)) / examples : null,
    mce: examples ? Math.max(...gaps) : null,
  };
}

function sum(values) {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
