// What the reader can move, choose and switch: each control changes the state and draws anew what depends on it.

function wireTheme() {
  const button = find("#theme"), root = document.documentElement;
  const wanted = matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : wanted.matches;
    button.textContent = dark ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", dark ? "Switch to light colours" : "Switch to dark colours");
    return dark;
  };
  button.addEventListener("click", () => { root.dataset.theme = show() ? "light" : "dark"; show(); });
  wanted.addEventListener("change", show);
  button.hidden = false;
  show();
}

function wireControls(report, state, sections) {
  const anew = (...ids) => redraw(sections, ids);
  wireDiagrams(report, state, anew);
  wirePickers(report, state, () => anew("threshold", "classes", "confusions", "gallery", "training"));
  wireThreshold(report, state, () => anew("threshold"));
  find("#class-filter").addEventListener("input", () => filterClasses(report.models[state.chosen]));
  find("#curves .legend").append(...legendButtons(report, state.hidden, () => anew("curves")));
}

function modelOptions(report, indices) {
  return indices.map((index) => element("option", { value: index }, report.models[index].name));
}

function wireDiagrams(report, state, anew) {
  const shown = find("#shown"), bins = find("#bins");
  shown.append(element("option", { value: "all" }, "all models"), ...modelOptions(report, everyone(report)));
  shown.addEventListener("change", () => { state.shown = shown.value; anew("reliability", "histogram"); });
  bins.max = report.bin_choices.length - 1;
  bins.value = report.bin_choices.indexOf(report.default_bins);
  const sayBins = () => {
    find("#bins-number").textContent = state.bins;
    bins.setAttribute("aria-valuetext", `${state.bins} bins`);
  };
  bins.addEventListener("input", () => {
    state.bins = report.bin_choices[bins.value];
    sayBins();
    anew("reliability", "histogram");
    find("#bins-spoken").textContent = [...document.querySelectorAll("#reliability [data-value=ece]")]
      .map((found) => `${found.dataset.model}: ECE ${found.textContent}`).join("; ");
  });
  sayBins();
  find("#log").addEventListener("change", (event) => { state.logarithmic = event.target.checked; anew("histogram"); });
}

/** A select of a model per section about one; all choose the same. */
function wirePickers(report, state, anew) {
  const pickers = [...document.querySelectorAll("[data-picker]")];
  const choose = (value) => {
    state.chosen = Number(value);
    for (const picker of pickers) {
      if ([...picker.options].some((option) => option.value === value)) picker.value = value;
      else picker.selectedIndex = 0; // a section that has nothing of this model shows its first
    }
    anew();
  };
  for (const picker of pickers) {
    const part = picker.dataset.picker;
    picker.append(...modelOptions(report, part ? having(report, part) : everyone(report)));
    picker.addEventListener("change", () => choose(picker.value));
  }
}

function wireThreshold(report, state, anew) {
  const range = find("#threshold-range"), typed = find("#threshold-number"), last = report.thresholds.length - 1;
  const show = () => { typed.value = report.thresholds[state.threshold]; };
  const place = () => {
    range.value = state.threshold;
    range.setAttribute("aria-valuetext", report.thresholds[state.threshold]);
  };
  const move = (index) => {
    state.threshold = Math.min(last, Math.max(0, index));
    place();
    anew();
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
    event.preventDefault(); // thresholds are not equally far apart, as the browser's own steps are
    move(state.threshold + step);
    show();
  });
  typed.addEventListener("change", show); // what was typed, as the threshold it was taken for
  wireWanted(report, state);
}

function wireWanted(report, state) {
  const wanted = find("#wanted");
  wanted.value = state.wanted * 100;
  wanted.addEventListener("input", () => {
    const share = wanted.valueAsNumber / 100;
    state.wanted = share > 0 && share < 1 ? share : null;
    wanted.setAttribute("aria-invalid", String(state.wanted === null));
    drawGuarantee(report, state);
  });
}

function classFilter() {
  return find("#class-filter").value.trim().toLowerCase();
}

function filterClasses(model) {
  const words = classFilter(), found = foundClasses(model, words), names = new Set(found.map((row) => row.class));
  for (const line of document.querySelectorAll("#classes tr[data-class]")) line.hidden = !names.has(line.dataset.class);
  const listed = model.classes_by_gap.length;
  const never = model.classes - model.classes_predicted, cut = model.classes_predicted - listed;
  const others = [
    cut ? `${amountText(cut, "better one")} not listed` : null,
    never ? `${amountText(never, "class", "classes")} never predicted` : null,
  ].filter(Boolean).map((other) => `; ${other}`).join("");
  const left = words
    ? `${countText(found.length)} of ${countText(listed)} found`
    : amountText(listed, "class", "classes");
  find("#class-count").textContent = `${left}${others}`;
}
