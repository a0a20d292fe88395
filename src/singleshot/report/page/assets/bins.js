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

/** What acting only on confidences above the edge-th fine edge gives. */
function atThreshold(fine, edge) {
  const total = sum(fine.count), right = sum(fine.correct);
  const passing = sum(fine.count.slice(edge)), rightPassing = sum(fine.correct.slice(edge));
  return {
    total,
    right,
    wrong: total - right,
    passing,
    rightPassing,
    coverage: total ? passing / total : null,
    accuracy: passing ? rightPassing / passing : null,
    mistakes: passing - rightPassing,
    heldBack: right - rightPassing,
  };
}

/** Coverage and accuracy at every fine edge, from the lowest up. */
function thresholdCurves(fine) {
  const size = fine.count.length, total = sum(fine.count);
  const points = [];
  let passing = 0, right = 0;
  for (let edge = size - 1; edge >= 0; edge -= 1) {
    passing += fine.count[edge];
    right += fine.correct[edge];
    points.push({ threshold: edge / size, coverage: passing / total, accuracy: passing ? right / passing : null });
  }
  return points.reverse();
}

/** The fine edge nearest to a threshold. */
function nearestEdge(threshold, size) {
  return Math.min(size, Math.max(0, Math.round(threshold * size)));
}

function sum(values) {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
