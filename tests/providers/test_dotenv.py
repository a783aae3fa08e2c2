"""A file ``.env`` brings keys, and can neither take those of the shell elsewhere nor run code."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.helpers import crash
from zelo_ray import cli, doctor
from zelo_ray.cli import parse_command
from zelo_ray.errors import ExitStatus, OptionError
from zelo_ray.providers import Settings, connect, find_key, parse_judge, with_options
from zelo_ray.providers.dotenv import DotenvFile

OF_SHELL, OF_FILE = "the-key-of-the-shell", "the-key-of-the-file"
_PROVIDERS = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "zelo_ray.providers.openai"),
    "anthropic": (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "zelo_ray.providers.anthropic",
    ),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "zelo_ray.providers.gemini"),
}
_RERANKERS = {
    "cohere": ("CO_API_KEY", "CO_API_URL"),
    "jina": ("JINA_API_KEY", "JINA_BASE_URL"),
    "voyage": ("VOYAGE_API_KEY", "VOYAGE_BASE_URL"),
    "zeroentropy": ("ZEROENTROPY_API_KEY", "ZEROENTROPY_BASE_URL"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, whose ``.env`` is read; what it sets goes with the test."""
    monkeypatch.delenv("PYTHON_DOTENV_DISABLED")
    monkeypatch.chdir(tmp_path)
    before = dict(os.environ)
    yield tmp_path
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def catcher():
    """A server of somebody else's: its URL, and all that it was sent."""
    caught = list[str]()

    class Catch(BaseHTTPRequestHandler):
        def do_POST(self):
            caught.append(str(self.headers))
            self.send_error(401)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Catch) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", caught
        server.shutdown()


def write(folder, *lines):
    (folder / ".env").write_text("".join(f"{line}\n" for line in lines))


def told(*words):
    """The options of a command, and the lines that are said of the file."""
    lines = list[str]()
    return parse_command(words, lines.append)[1], lines


def findings(**options):
    return doctor(progress=None, **options).findings


@pytest.fixture
def own_address(fakes, monkeypatch):
    """The fakes stand where the providers themselves are: no shell names an address."""
    for name, (_, variable, module) in _PROVIDERS.items():
        monkeypatch.setattr(f"{module}.DIALECT.base_url", fakes.urls[name])
        monkeypatch.delenv(variable)
    return fakes


@pytest.mark.parametrize("name", _PROVIDERS)
def test_no_key_of_the_shell_goes_to_the_address_of_the_file(own_address, folder, catcher, name):
    url, caught = catcher
    key, variable, _ = _PROVIDERS[name]
    os.environ[key] = own_address.key
    write(folder, f"{variable}={url}")
    with pytest.raises(OptionError, match=f"{variable} stands in .env without its key") as error:
        doctor(judges=[name], ask=True, progress=None)
    assert url not in str(error.value)
    assert cli.main(["annotate", "in.jsonl", "--out", "o", "--judges", name]) == 2
    assert (caught, own_address.journal) == ([], [])


@pytest.mark.parametrize("name", _PROVIDERS)
def test_a_key_of_the_file_goes_to_the_address_beside_it_and_doctor_says_so(folder, catcher, name):
    url, caught = catcher
    key, variable, _ = _PROVIDERS[name]
    write(folder, f"{key}={OF_FILE}", f"{variable}={url}")
    rows = {row["check"]: row for row in findings(judges=[name], ask=True)}
    assert len(caught) == 1
    assert OF_FILE in caught[0]
    assert f"from {folder}/.env, and goes to {url}" in rows[f"key of {name}"]["finding"]
    assert variable not in os.environ


@pytest.mark.parametrize(
    "shell",
    [
        {"OPENAI_API_KEY": OF_SHELL},
        {"MY_KEY": OF_SHELL},
        {"MY_KEY": OF_SHELL, "OPENAI_API_KEY": OF_SHELL},
    ],
    ids="+".join,
)
def test_a_key_in_the_file_does_not_lead_another_key_to_its_address(folder, shell):
    os.environ.update(shell)
    write(folder, f"OPENAI_API_KEY={OF_FILE}", "OPENAI_BASE_URL=http://127.0.0.1:9")
    config = folder / "job.yaml"
    config.write_text("api_key_env: {'openai:m': MY_KEY}\n" if "MY_KEY" in shell else "")
    options, _ = told("annotate", "in", "--out", "o", "--config", "job.yaml")
    judge = with_options(parse_judge("openai:m"), {})
    key = find_key(judge, options.api_key_env, os.environ)
    assert key == OF_SHELL
    assert connect(judge, Settings(key))._settings.base_url == "https://api.openai.com/v1"


@pytest.mark.parametrize("name", _RERANKERS)
def test_so_it_is_with_rerankers(folder, name):
    key, variable = _RERANKERS[name]
    judge = with_options(parse_judge(f"{name}:m"), {})
    write(folder, f"{key}={OF_FILE}", f"{variable}=http://127.0.0.1:9")
    parse_command(["report", "o"])
    assert connect(judge, Settings(OF_FILE))._settings.base_url == "http://127.0.0.1:9"
    assert connect(judge, Settings(OF_SHELL))._settings.base_url.startswith("https://api.")


def test_a_value_that_refers_to_another_variable_does_not_get_it(folder):
    os.environ["ANTHROPIC_API_KEY"] = OF_SHELL
    write(folder, "OPENAI_API_KEY=${ANTHROPIC_API_KEY}", "OPENAI_BASE_URL=http://127.0.0.1:9")
    parse_command(["report", "o"])
    assert OF_SHELL not in os.environ["OPENAI_API_KEY"]


def test_names_that_are_no_keys_are_left_out_and_named_without_their_values(folder):
    names = ("PYTHONPATH", "LD_PRELOAD", "https_proxy", "SSL_CERT_FILE", "RAY_ADDRESS", "RAY_x")
    os.environ.pop("PYTHONPATH", None)
    before = dict(os.environ)
    write(folder, *(f"{name}=evil" for name in names), f"JINA_API_KEY={OF_FILE}")
    _, (line,) = told("annotate", "in", "--out", "o")
    assert dict(os.environ) == {**before, "JINA_API_KEY": OF_FILE}
    assert line.startswith(f".env: not taken: {', '.join(names)};")
    assert "evil" not in line


def test_keys_that_options_and_own_providers_name_are_taken(folder):
    own = 'Provider(connect=print, models=("m",), key_variables=("OWN_KEY",))'
    (folder / "own.py").write_text(f"from zelo_ray import Provider\nPROVIDER = {own}\n")
    write(folder, "NAMED_KEY=4", "OTHER_KEY=5", "OWN_KEY=6")
    (folder / "c.yaml").write_text("api_key_env: {'openai:m@http://127.0.0.1:9': NAMED_KEY}\n")
    judges = ("--judges", "own.py:PROVIDER:m", "offline")
    _, (line,) = told("annotate", "in", "--out", "o", "--config", "c.yaml", *judges)
    assert line.startswith(".env: not taken: OTHER_KEY;")
    assert (os.environ["NAMED_KEY"], os.environ["OWN_KEY"]) == ("4", "6")
    assert "OTHER_KEY" not in os.environ


def test_a_file_in_a_directory_above_is_not_read(folder, monkeypatch):
    write(folder, f"OPENAI_API_KEY={OF_FILE}")
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert told("report", "o")[1] == []
    assert "OPENAI_API_KEY" not in os.environ


def _link(path: Path) -> None:
    (path.parent / "real").write_text("OPENAI_API_KEY=x\n")
    path.symlink_to("real")


def _for_all(path: Path) -> None:
    path.write_text("OPENAI_API_KEY=x\n")
    path.chmod(0o666)


def _of_another(path: Path) -> None:
    path.write_text("OPENAI_API_KEY=x\n")
    if os.getuid():
        pytest.skip("only root may give a file away")
    os.chown(path, 12345, -1)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (os.mkfifo, "not a regular file"),
        (os.mkdir, "not a regular file"),
        (_link, "a link"),
        (_for_all, "it is writable by everyone"),
        (_of_another, "it belongs to another user (12345"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_this_user_alone_has_not_written_is_not_read(folder, capsys, make, says):
    make(folder / ".env")
    _, (line,) = told("report", "o")
    assert line.startswith(".env: not read: it ")
    assert says in line
    assert "OPENAI_API_KEY" not in os.environ
    assert cli.main(["report", "o"]) == ExitStatus.FAILED
    assert capsys.readouterr().err.splitlines()[0] == f"zelo-ray: {line}"


def test_a_warning_tells_callers_from_python(folder):
    write(folder, "PYTHONPATH=/evil")
    with pytest.warns(UserWarning, match="not taken: PYTHONPATH"):
        findings(judges=["offline"])
    (folder / ".env").write_bytes(b"A=a\0b\n")
    with pytest.raises(OptionError, match="cannot be read"):
        DotenvFile({})


@pytest.mark.parametrize(
    "executor", ["local", pytest.param("ray", marks=(pytest.mark.ray, pytest.mark.nightly))]
)
def test_a_run_calls_the_address_beside_the_key_and_says_so_first(tmp_path, executor):
    with crash.fakes(tmp_path) as environ:
        key, url = (environ.pop(name) for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"))
        del environ["PYTHON_DOTENV_DISABLED"]
        write(tmp_path, f"OPENAI_API_KEY={key}", f"OPENAI_BASE_URL={url}", "PYTHONPATH=/evil")
        crash.write_pools(tmp_path / "in.jsonl", 2, 3)
        command = crash.annotating("in.jsonl", "out", "--judges", crash.DEFAULT_JUDGES[0])
        command += ["--executor", executor]
        environ["TEST_OPTION_LIMITS"] = '{"openai:gpt-6-luna": {"rpm": 1000000}}'
        environ["PYTHONPATH"] = str(crash.ROOT)
        status, printed = crash.finish(crash.start(command, environ, tmp_path))
    assert status == 0, printed
    assert f"{tmp_path}/.env: OPENAI_API_KEY read from it" in printed
    assert f"OPENAI_API_KEY goes to {url}" in printed
    assert len(crash.answers(tmp_path)) > 0
