"""Names of bytes that are not UTF-8 are one line that says what to do, in every command."""

import os

import pytest

from tests.input_pools import POOLS, brought, lines, put
from zelo_ray.cli import PURPOSES, main
from zelo_ray.errors import InputError
from zelo_ray.formats.input import InputOptions, convert_inputs
from zelo_ray.formats.interchange.texts import read_texts
from zelo_ray.formats.judgments.all_judgments import read_all_judgments
from zelo_ray.formats.judgments.qrels import read_qrels
from zelo_ray.formats.pools import find_shards

ODD = os.fsdecode(b"b\xffd")
SAYS = r"b\xffd{}: holds bytes that are not UTF-8: rename the file, or write it in UTF-8"


def odd_file(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / os.fsdecode(name)).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("command", [*PURPOSES, "no-such-command", "--version-of"])
@pytest.mark.parametrize("words", [[ODD], ["--out", ODD], [f"--{ODD}"], ["x", f"{ODD}=y"]])
def test_an_argument_is_refused_in_one_line_by_every_command(command, words, capsys):
    assert main([command, *words]) == 2
    told = capsys.readouterr()
    [line] = told.err.splitlines()
    assert line.startswith("zelo-ray: ")
    assert SAYS.format("")[6:] in line
    assert r"b\xffd" in line
    assert not told.out


def test_a_working_directory_is_refused_in_one_line(tmp_path, monkeypatch, capsys):
    place = tmp_path / ODD
    place.mkdir()
    monkeypatch.chdir(place)
    assert main(["annotate", "a.jsonl", "--out", "o"]) == 2
    assert capsys.readouterr().err.endswith(f"{SAYS.format('')}\n")
    assert main(["--help"]) == 0


def test_a_file_of_a_folder_is_left_out_by_name(tmp_path):
    put(tmp_path / "in/a.jsonl", lines(POOLS))
    odd_file(tmp_path / "in", b"b\xffd.csv", "query,text\nq,d\n")
    found = convert_inputs([str(tmp_path / "in")], str(tmp_path / "out"), InputOptions())
    assert found.notes == (f"left out {tmp_path}/in/{SAYS.format('.csv')}",)
    (tmp_path / "in/a.jsonl").unlink()
    with pytest.raises(InputError) as error:
        brought(tmp_path, str(tmp_path / "in"))
    assert str(error.value) == f"{tmp_path}/in/{SAYS.format('.csv')}"


def test_a_glob_a_corpus_and_a_folder_of_judgments_name_it(tmp_path):
    odd_file(tmp_path / "in", b"b\xffd.jsonl", lines(POOLS))
    with pytest.raises(InputError, match="holds bytes that are not UTF-8"):
        find_shards([str(tmp_path / "in" / "*")])
    odd_file(tmp_path / "set/corpus", b"b\xffd.jsonl", '{"_id": "d", "text": "x"}\n')
    with pytest.raises(InputError, match="holds bytes that are not UTF-8"):
        [*read_texts(str(tmp_path / "set"), "corpus")]
    odd_file(tmp_path / "labels", b"b\xffd.qrels", "q 0 d 1\n")
    with pytest.raises(InputError, match="holds bytes that are not UTF-8"):
        read_all_judgments([str(tmp_path / "labels")])
    with pytest.raises(InputError, match="holds bytes that are not UTF-8"):
        read_qrels(str(tmp_path / "labels" / f"{ODD}.qrels"))
