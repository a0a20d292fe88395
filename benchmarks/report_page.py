"""Time and size of a report page about ten models with a million predictions each, and the time to open it.

    make bench          or          OMP_NUM_THREADS=1 python benchmarks/report_page.py [--models 10] [--rows 1000000]

The same run also evaluates the files one by one with intervals: the difference is the cost of the page. A headless
Chromium, if installed, opens the page three times; the time is from navigation until everything is drawn
(html[data-ready]).
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

CLASSES = 10
OPENED = 3
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


def make_files(folder: Path, models: int, rows: int) -> list[Path]:
    """Write classifiers of the same examples, each with sharper scores than the one before."""
    from singleshot.predictions import write_predictions

    labels = np.random.default_rng(0).integers(0, CLASSES, rows)
    files = []
    for model in range(models):
        logits = np.random.default_rng(model + 1).normal(size=(rows, CLASSES)).astype(np.float32)
        logits[np.arange(rows), labels] += 2
        file = folder / f"model {model}.npz"
        write_predictions(file, [(logits * (0.5 + 0.2 * model), labels)])
        files.append(file)
    return files


def evaluate_one_by_one(files: list[Path]) -> None:
    from singleshot.evaluation.evaluation import evaluate_file
    from singleshot.predictions import read_predictions

    for file in files:
        evaluate_file(read_predictions(file), keep_examples=True, test_calibration=False)


def make_page(files: list[Path], page: Path) -> None:
    """Do the work of ``singleshot report FILES... -o PAGE``."""
    from singleshot.reporting.page import file_report, write_page

    write_page((file_report(file, name=file.stem) for file in files), page, title="Many models")


def opening_seconds(page: Path) -> list[float]:
    """Return the times from navigation until everything is drawn; none without a browser."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        return []
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(driver))
    seconds = []
    try:
        for _ in range(OPENED):
            browser.get("about:blank")
            started = time.perf_counter()
            browser.get(page.as_uri())
            wait = WebDriverWait(browser, 60, poll_frequency=0.02)
            wait.until(lambda opened: opened.execute_script("return 'ready' in document.documentElement.dataset"))
            seconds.append(time.perf_counter() - started)
    finally:
        browser.quit()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1_000_000)
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = make_files(folder, args.models, args.rows)
        page = folder / "report.html"
        make_page(files[:2], page)  # warm-up
        spent = {}
        jobs = {"one by one": partial(evaluate_one_by_one, files), "page": partial(make_page, files, page)}
        for job, run in jobs.items():
            started, busy = time.perf_counter(), time.process_time()
            run()
            spent[job] = (time.perf_counter() - started, time.process_time() - busy)
        print(f"{args.models} models, {args.rows:,} x {CLASSES} float32 logits each")
        for job, (seconds, processor) in spent.items():
            ratio = processor / spent["one by one"][1]
            print(f"  {job:<11} {seconds:6.1f} s   {processor:6.1f} s of the processor   {ratio:5.2f} x one by one")
        print(f"  the page has {page.stat().st_size / 1e6:.2f} MB")
        opened = opening_seconds(page)
        if not opened:
            print("  chromium and chromedriver are not installed, so the page is not opened")
            return
        print(f"  it opens in {median(opened):.2f} s ({', '.join(f'{one:.2f}' for one in opened)})")


if __name__ == "__main__":
    main()
