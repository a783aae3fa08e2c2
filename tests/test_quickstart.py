"""The walk-through runs from its first cell to its last, and shows what it says."""

import os
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.crash import ROOT

pytestmark = pytest.mark.ray


def test_the_walk_through_runs_as_it_stands(tmp_path, monkeypatch):
    folder = tmp_path / "docs"
    folder.mkdir()
    (tmp_path / "data").symlink_to(ROOT / "data")
    shutil.copy(ROOT / "docs" / "quickstart.ipynb", folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(folder / "quickstart.ipynb", as_version=4)
    client = NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    shown = ["".join(o.get("text", "") for o in c.get("outputs", ())) for c in notebook.cells]
    printed = "\n".join(shown)
    assert "15 documents of 3 queries scored" in printed
    assert "long words" in printed
    assert "cannot be told from" in printed or "is above" in printed
    assert (folder / "contest" / "report.html").exists()
    (tables,) = [c.outputs for c in notebook.cells if "p_better" in c.source and "pd." in c.source]
    assert "text/html" in tables[0].data
