// Pure functions of the counts at each threshold: coverage and accuracy, and thresholds with a guaranteed accuracy.

/** Coverage, accuracy and counts at the index-th threshold. */
function atThreshold(model, index) {
  const { accepted, correct } = model.at_threshold;
  const total = accepted[0], right = correct[0]; // the lowest threshold is 0 and accepts everything
  return {
    total,
    right,
    wrong: total - right,
    accepted: accepted[index],
    correct: correct[index],
    coverage: accepted[index] / total,
    accuracy: accepted[index] ? correct[index] / accepted[index] : null,
    mistakes: accepted[index] - correct[index],
    rejected: right - correct[index],
  };
}

/** The index of the threshold nearest to a value. */
function nearestThreshold(thresholds, value) {
  let nearest = 0;
  thresholds.forEach((threshold, index) => {
    if (Math.abs(threshold - value) < Math.abs(thresholds[nearest] - value)) nearest = index;
  });
  return nearest;
}

/**
 * The lowest threshold with a guaranteed accuracy, or null: the search of threshold_for_accuracy in
 * metrics/selective.py. Thresholds are in descending order; the search from each start ends at the first that fails.
 */
function thresholdFor(report, model, target) {
  const { thresholds, starts } = report.guarantee, bounds = model.guaranteed_accuracies;
  let lowest = -1;
  for (const start of starts) {
    let place = start;
    while (place < thresholds.length && bounds[place] >= target) place += 1;
    if (place > start) lowest = Math.max(lowest, place - 1);
  }
  if (lowest < 0) return { threshold: null, message: reasonForNone(report, model, target) };
  const found = atThreshold(model, report.thresholds.indexOf(thresholds[lowest]));
  return { ...found, threshold: thresholds[lowest], message: guaranteeText(report, found, thresholds[lowest], target) };
}

function guaranteeText({ guarantee }, found, threshold, target) {
  return `accepting scores of ${threshold} and above keeps ${fixed(found.coverage * 100, 1)} % of the examples; it is `
    + `${shortPercent(guarantee.certainty)} certain that at least ${shortPercent(target)} of such predictions are right`;
}

function reasonForNone(report, model, target) {
  const { certainty, thresholds, starts } = report.guarantee, bounds = model.guaranteed_accuracies;
  const best = starts.reduce((one, other) => (bounds[other] > bounds[one] ? other : one));
  const { accepted, total } = atThreshold(model, report.thresholds.indexOf(thresholds[best]));
  const reason = bounds[best] > 0
    ? `the best of the ${starts.length} thresholds at which a search starts, ${thresholds[best]}, accepts `
      + `${countText(accepted)} of ${countText(total)} examples and guarantees only `
      + `${Number((bounds[best] * 100).toPrecision(4))} %`
    : `no correct prediction has a score of ${thresholds[starts.at(-1)]} or more`;
  const needed = Math.ceil(Math.log((1 - certainty) / starts.length) / Math.log(target));
  return `no threshold is ${shortPercent(certainty)} certain to reach an accuracy of ${shortPercent(target)}: ${reason}; `
    + `even without errors it takes ${countText(needed)} accepted examples. Lower the accuracy or use more examples`;
}

/** A percentage without trailing zeros. */
function shortPercent(share) {
  return `${Number((share * 100).toPrecision(6))} %`;
}
