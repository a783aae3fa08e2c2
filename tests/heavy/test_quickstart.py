"""The walk-through runs from its first cell to its last, and shows what it says."""

import re
import shutil

import pytest

from tests.helpers.crash import PATIENCE, ROOT

pytestmark = [pytest.mark.ray, pytest.mark.nightly]

nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
NOTEBOOK = ROOT / "docs" / "quickstart.ipynb"
CERTAIN = ("scores", "votes", "agreement", "contest", "comparisons")
"""What the last line of a cell begins with, whose output is the same each time."""
TIMED = re.compile(r"(?<=Leaderboard\n).*?(?=\n\n)", re.DOTALL)
"""What follows the title of a section that has times, which are of one execution."""


def shown(notebook):
    """The outputs that are the same each time, as texts, by cell."""
    return {
        n: [TIMED.sub("", output.data["text/plain"]) for output in cell.outputs if "data" in output]
        for n, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and cell.source.splitlines()[-1].startswith(CERTAIN)
    }


def test_the_walk_through_runs_as_it_stands(tmp_path, monkeypatch):
    folder = tmp_path / "docs"
    folder.mkdir()
    (tmp_path / "data").symlink_to(ROOT / "data")
    shutil.copy(NOTEBOOK, folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(folder / "quickstart.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=int(PATIENCE),
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    streams = [o for c in notebook.cells for o in c.get("outputs", ()) if o.output_type == "stream"]
    assert not streams
    assert "documents scored 329" in str(notebook)
    assert "recorded:../data/recordings" in str(notebook)
    assert (folder / "contest" / "comparisons.parquet").exists()
    committed = nbformat.read(NOTEBOOK, as_version=4)
    assert len(shown(committed)) == 6
    assert shown(notebook) == shown(committed)
