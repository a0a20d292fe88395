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
  const say = () => range.setAttribute("aria-valuetext", fixed(state.edge / report.fine_bins, 4));
  const show = () => { typed.value = fixed(state.edge / report.fine_bins, 4); };
  range.max = report.fine_bins;
  range.value = state.edge;
  show();
  say();
  range.addEventListener("input", () => { state.edge = Number(range.value); show(); say(); redraw(); });
  typed.addEventListener("input", () => {
    if (typed.value === "" || !Number.isFinite(typed.valueAsNumber)) return; // half-typed
    state.edge = nearestEdge(typed.valueAsNumber, report.fine_bins);
    range.value = state.edge;
    say();
    redraw();
  });
  typed.addEventListener("change", show); // what was typed, as the edge it was taken for

  const accuracies = report.models[0].guarantees.map((one) => one.accuracy);
  wanted.append(...accuracies.map((accuracy) => element(
    "option",
    { value: accuracy },
    `${Number((accuracy * 100).toFixed(1))} %`,
  )));
  state.wanted = accuracies.includes(0.95) ? 0.95 : accuracies[0];
  wanted.value = state.wanted;
  wanted.addEventListener("change", () => { state.wanted = Number(wanted.value); drawGuarantee(report, state); });
}

function filterClasses(model) {
  const words = find("#class-filter").value.trim().toLowerCase();
  let left = 0;
  for (const line of document.querySelectorAll("#classes tr[data-class]")) {
    line.hidden = !line.dataset.class.toLowerCase().includes(words);
    left += line.hidden ? 0 : 1;
  }
  const listed = model.classes_by_gap.length;
  const whole = listed < model.classes
    ? `${countText(listed)} of ${countText(model.classes)} classes listed`
    : amountText(listed, "class", "classes");
  find("#class-count").textContent = words ? `${countText(left)} of ${countText(listed)} found` : whole;
}
