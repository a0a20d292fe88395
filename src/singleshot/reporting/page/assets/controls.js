// Controls: each changes the state and redraws what depends on it.

function wireTheme() {
  const button = find("#theme"), root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
    button.textContent = dark ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", dark ? "Switch to light colours" : "Switch to dark colours");
    return dark;
  };
  button.addEventListener("click", () => { root.dataset.theme = show() ? "light" : "dark"; show(); });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
}

function wireControls(report, state, sections) {
  const update = (...ids) => redraw(sections, ids);
  wireDiagrams(report, state, update);
  wirePickers(report, state, () => update("threshold", "classes", "confusions", "inspection", "training"));
  wireThreshold(report, state, () => update("threshold"));
  find("#class-filter").addEventListener("input", () => filterClasses(chosenAmong(report, state, "classes_by_gap")));
  find("#curves .legend").append(...legendButtons(report, state.hidden, () => update("curves")));
}

function modelOptions(report, indices) {
  return indices.map((index) => element("option", { value: index }, report.models[index].name));
}

function wireDiagrams(report, state, update) {
  const shown = find("#shown"), bins = find("#bins");
  shown.append(element("option", { value: "all" }, "all models"), ...modelOptions(report, allModels(report)));
  shown.addEventListener("change", () => { state.shown = shown.value; update("reliability", "histogram"); });
  bins.max = report.bin_choices.length - 1;
  bins.value = report.bin_choices.indexOf(report.default_bins);
  const showBins = () => {
    find("#bins-number").textContent = state.bins;
    bins.setAttribute("aria-valuetext", `${state.bins} bins`);
  };
  bins.addEventListener("input", () => {
    state.bins = report.bin_choices[bins.value];
    showBins();
    update("metrics", "reliability", "histogram");
    find("#bins-spoken").textContent = [...document.querySelectorAll("#reliability [data-value=ece]")]
      .map((found) => `${found.dataset.model}: ECE ${found.textContent}`).join("; ");
  });
  showBins();
  find("#log").checked = state.logarithmic;
  find("#log").addEventListener("change", (event) => { state.logarithmic = event.target.checked; update("histogram"); });
}

/** The model pickers of several sections, kept in sync. */
function wirePickers(report, state, update) {
  const pickers = [...document.querySelectorAll("[data-picker]")];
  const choose = (value) => {
    state.chosen = Number(value);
    for (const picker of pickers) {
      if ([...picker.options].some((option) => option.value === value)) picker.value = value;
      else picker.selectedIndex = 0; // a section without this model shows its first
    }
    update();
  };
  for (const picker of pickers) {
    const part = picker.dataset.picker;
    picker.append(...modelOptions(report, part ? modelsWith(report, part) : allModels(report)));
    picker.addEventListener("change", () => choose(picker.value));
  }
}

function wireThreshold(report, state, update) {
  const range = find("#threshold-range"), typed = find("#threshold-number"), last = report.thresholds.length - 1;
  const show = () => { typed.value = report.thresholds[state.threshold]; };
  const place = () => {
    range.value = state.threshold;
    range.setAttribute("aria-valuetext", report.thresholds[state.threshold]);
  };
  const move = (index) => {
    state.threshold = Math.min(last, Math.max(0, index));
    place();
    update();
  };
  range.max = last;
  place();
  show();
  range.addEventListener("input", () => { move(Number(range.value)); show(); });
  typed.addEventListener("input", () => {
    if (Number.isFinite(typed.valueAsNumber)) move(nearestThreshold(report.thresholds, typed.valueAsNumber));
  });
  typed.addEventListener("keydown", (event) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!step) return;
    event.preventDefault(); // the browser's own steps are of equal size, the thresholds are not equidistant
    move(state.threshold + step);
    show();
  });
  typed.addEventListener("change", show); // show the nearest threshold, which is the one in use
  wireTarget(report, state);
}

function wireTarget(report, state) {
  const target = find("#target");
  target.value = state.target * 100;
  target.addEventListener("input", () => {
    const share = target.valueAsNumber / 100;
    state.target = share > 0 && share < 1 ? share : null;
    target.setAttribute("aria-invalid", String(state.target === null));
    drawGuarantee(report, state);
  });
}

function classFilter() {
  return find("#class-filter").value.trim().toLowerCase();
}

function filterClasses(model) {
  const text = classFilter(), found = foundClasses(model, text), names = new Set(found.map((row) => row.class));
  for (const line of document.querySelectorAll("#classes tr[data-class]")) line.hidden = !names.has(line.dataset.class);
  const listed = model.classes_by_gap.length;
  const never = model.classes - model.classes_predicted, cut = model.classes_predicted - listed;
  const others = [
    cut ? `${amountText(cut, "better calibrated class", "better calibrated classes")} not listed` : null,
    never ? `${amountText(never, "class", "classes")} never predicted` : null,
  ].filter(Boolean).map((other) => `; ${other}`).join("");
  const listing = text
    ? `${countText(found.length)} of ${countText(listed)} found`
    : amountText(listed, "class", "classes");
  find("#class-count").textContent = `${listing}${others}`;
}
