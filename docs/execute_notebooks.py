"""Execute the notebooks and store their outputs.

    make notebooks          or          python docs/execute_notebooks.py

The outputs are stored in the repository, so that the notebooks can be read there, and so that the site is built without
training. `tests/integration/test_docs_site.py` executes them again and compares the outputs, except for the numbers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parent / "notebooks").glob("*.ipynb"))


def executed(path: Path) -> Any:
    """Return the notebook with new outputs, executed in a temporary folder; an error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(notebook, kernel_name="python3", resources=where, timeout=300, coalesce_streams=True).execute()
    for cell in notebook.cells:
        cell.metadata.clear()  # the times of the execution
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return notebook


def main() -> None:
    """Execute every notebook in place."""
    for path in NOTEBOOKS:
        nbformat.write(executed(path), path)
        print(path.name)


if __name__ == "__main__":
    main()
