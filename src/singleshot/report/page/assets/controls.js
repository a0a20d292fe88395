// What the reader can move, choose and switch: each control changes the state and draws anew what depends on it.

function wireTheme() {
  const button = find("#theme"), root = document.documentElement;
  const wanted = matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : wanted.matches;
    button.textContent = dark ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", dark ? "Switch to light colours" : "Switch to dark colours");
    button.setAttribute("aria-pressed", String(dark));
    return dark;
  };
  button.addEventListener("click", () => { root.dataset.theme = show() ? "light" : "dark"; show(); });
  wanted.addEventListener("change", show);
  button.hidden = false;
  show();
}

function wireControls(report, state, sections) {
  const redraw = (...ids) => ids.forEach((id) => sections[id].drawn && sections[id].draw());
  const options = (indices) => indices.map((index) => element("option", { value: index }, report.models[index].name));
  const all = report.models.map((_, index) => index);

  const shown = find("#shown"), bins = find("#bins");
  shown.append(element("option", { value: "all" }, "all models"), ...options(all));
  shown.addEventListener("change", () => { state.shown = shown.value; redraw("reliability", "histogram"); });
  bins.max = report.bin_choices.length - 1;
  bins.value = report.bin_choices.indexOf(report.default_bins);
  const sayBins = () => {
    find("#bins-number").textContent = state.bins;
    bins.setAttribute("aria-valuetext", `${state.bins} bins`);
  };
  bins.addEventListener("input", () => {
    state.bins = report.bin_choices[bins.value];
    sayBins();
    redraw("reliability", "histogram");
    find("#bins-spoken").textContent = [...document.querySelectorAll("#reliability [data-value=ece]")]
      .map((found) => `${found.dataset.model}: ECE ${found.textContent}`).join("; ");
  });
  sayBins();
  find("#log").addEventListener(
    "change",
    (event) => { state.logarithmic = event.target.checked; redraw("histogram"); },
  );

  for (const picker of document.querySelectorAll("[data-picker]")) {
    const part = picker.dataset.picker;
    picker.append(...options(part ? all.filter((index) => report.models[index][part]) : all));
    picker.addEventListener("change", () => {
      state.chosen = Number(picker.value);
      for (const other of document.querySelectorAll("[data-picker]")) {
        if ([...other.options].some((option) => option.value === picker.value)) other.value = picker.value;
        else other.selectedIndex = 0; // a section that has nothing of this model shows its first
      }
      redraw("threshold", "classes", "confusions", "gallery", "training");
    });
  }

  wireThreshold(report, state, () => redraw("threshold"));
  find("#class-filter").addEventListener("input", () => filterClasses(report.models[state.chosen]));
  find("#curves .legend").append(...legendButtons(report, state.hidden, () => redraw("curves")));
}

function wireThreshold(report, state, redraw) {
  const range = find("#threshold-range"), typed = find("#threshold-number"), wanted = find("#wanted");
  const say = () => range.setAttribute("aria-valuetext", report.thresholds[state.threshold]);
  const show = () => { typed.value = report.thresholds[state.threshold]; };
  range.max = report.thresholds.length - 1;
  range.value = state.threshold;
  show();
  say();
  range.addEventListener("input", () => { state.threshold = Number(range.value); show(); say(); redraw(); });
  typed.addEventListener("input", () => {
    if (!Number.isFinite(typed.valueAsNumber)) return; // half-typed
    state.threshold = nearestThreshold(report.thresholds, typed.valueAsNumber);
    range.value = state.threshold;
    say();
    redraw();
  });
  typed.addEventListener("change", show); // what was typed, as the threshold it was taken for

  wanted.value = state.wanted * 100;
  wanted.addEventListener("input", () => {
    const share = wanted.valueAsNumber / 100;
    const isPossible = share > 0 && share < 1;
    wanted.setAttribute("aria-invalid", String(!isPossible && wanted.value !== ""));
    if (!isPossible) return;
    state.wanted = share;
    drawGuarantee(report, state);
  });
  wanted.addEventListener("change", () => { // whatever else was typed, as what the answer is for
    wanted.value = Number((state.wanted * 100).toPrecision(12));
    wanted.setAttribute("aria-invalid", "false");
  });
}

function filterClasses(model) {
  const words = find("#class-filter").value.trim().toLowerCase();
  let left = 0;
  for (const line of document.querySelectorAll("#classes tr[data-class]")) {
    line.hidden = !line.dataset.class.toLowerCase().includes(words);
    left += line.hidden ? 0 : 1;
  }
  const listed = model.classes_by_gap.length;
  const never = model.classes - model.classes_predicted, cut = model.classes_predicted - listed;
  const others = [
    cut ? `${amountText(cut, "better one")} not listed` : null,
    never ? `${amountText(never, "class", "classes")} never predicted` : null,
  ].filter(Boolean).map((other) => `; ${other}`).join("");
  const found = words ? `${countText(left)} of ${countText(listed)} found` : amountText(listed, "class", "classes");
  find("#class-count").textContent = `${found}${others}`;
}
