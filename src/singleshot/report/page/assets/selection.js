// What a threshold gives, and which threshold is sure to give an accuracy: pure functions of counts made by Python.

/** What acting only on confidences of at least the index-th threshold gives. */
function atThreshold(model, index) {
  const { accepted, correct } = model.at_threshold;
  const total = accepted[0], right = correct[0]; // the lowest threshold is 0, and accepts everything
  return {
    total,
    right,
    wrong: total - right,
    accepted: accepted[index],
    correct: correct[index],
    coverage: accepted[index] / total,
    accuracy: accepted[index] ? correct[index] / accepted[index] : null,
    mistakes: accepted[index] - correct[index],
    heldBack: right - correct[index],
  };
}

/** The place of the explored threshold nearest to a value. */
function nearestThreshold(thresholds, value) {
  let nearest = 0;
  thresholds.forEach((threshold, index) => {
    if (Math.abs(threshold - value) < Math.abs(thresholds[nearest] - value)) nearest = index;
  });
  return nearest;
}

/**
 * The lowest threshold that is sure to reach an accuracy, or none; how and why, threshold_for_accuracy in the package's
 * metrics/selective.py says. Thresholds go from the strictest down; a walk from each start ends at the first that fails.
 */
function thresholdFor(report, model, wanted) {
  const { thresholds, starts } = report.guarantee, sure = model.sure_accuracies;
  let lowest = -1;
  for (const start of starts) {
    let place = start;
    while (place < thresholds.length && sure[place] >= wanted) place += 1;
    if (place > start) lowest = Math.max(lowest, place - 1);
  }
  if (lowest < 0) return { threshold: null, message: whyNone(report, model, wanted) };
  const found = atThreshold(model, report.thresholds.indexOf(thresholds[lowest]));
  return { ...found, threshold: thresholds[lowest], message: promise(report, found, thresholds[lowest], wanted) };
}

function promise({ guarantee }, found, threshold, wanted) {
  return `accepting scores of ${threshold} and above keeps ${fixed(found.coverage * 100, 1)} % of the examples; it is `
    + `${shortPercent(guarantee.certainty)} certain that at least ${shortPercent(wanted)} of such predictions are right`;
}

function whyNone(report, model, wanted) {
  const { certainty, thresholds, starts } = report.guarantee, sure = model.sure_accuracies;
  const best = starts.reduce((one, other) => (sure[other] > sure[one] ? other : one));
  const { accepted, total } = atThreshold(model, report.thresholds.indexOf(thresholds[best]));
  const atBest = sure[best] > 0
    ? `the best of the ${starts.length} thresholds at which a search starts, ${thresholds[best]}, accepts `
      + `${countText(accepted)} of ${countText(total)} examples and guarantees only `
      + `${Number((sure[best] * 100).toPrecision(4))} %`
    : `no correct prediction has a score of ${thresholds[starts.at(-1)]} or more`;
  const needed = Math.ceil(Math.log((1 - certainty) / starts.length) / Math.log(wanted));
  return `no threshold is ${shortPercent(certainty)} certain to reach an accuracy of `
    + `${shortPercent(wanted)}: ${atBest}; even without errors it takes ${countText(needed)} accepted examples. `
    + "Lower the accuracy or use more examples";
}

/** A percentage with no more digits than it has. */
function shortPercent(share) {
  return `${Number((share * 100).toPrecision(6))} %`;
}
