"""What every test stands on: an environment without keys, servers on loopback."""

import os
import signal
import warnings

import fsspec
import pytest
from hypothesis import settings

from benchmarks.data import unpack
from tests.fakes import Fakes
from tests.helpers.crash import bare_environment, end_left

# No test states a time. Where a change is judged, examples are the same each time; else new ones.
settings.register_profile("zelo", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("zelo")

_ENDED_BY_SIGTERM = signal.getsignal(signal.SIGTERM)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    """No key, base URL, option or proxy of the developer's reaches a test, nor a ``.env`` file."""
    for name in set(os.environ) - set(bare_environment()):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHON_DOTENV_DISABLED", "1")


@pytest.fixture(autouse=True)
def _no_ray_in_this_process():
    """Ray's driver ends its process without a word, or hangs in it, where a server of it dies.

    All further tests would go with it. That a driver was here is told by its handler of SIGTERM.
    """
    yield
    came = signal.signal(signal.SIGTERM, _ENDED_BY_SIGTERM) is not _ENDED_BY_SIGTERM
    assert not came, (
        "Ray was started by the process of the tests: let a process of its own start it"
    )


@pytest.fixture(autouse=True)
def _nothing_left_running():
    """What a test started ends with it, also if it failed; else the next one hears of it."""
    yield
    end_left()


@pytest.fixture
def say(capsys):
    """Run ``agree``: the exit status, and the lines on the terminal but for the next command."""
    from zelo_ray import cli

    def run(*words):
        status = cli.main(["agree", *map(str, words)])
        told = capsys.readouterr()
        lines = (told.out + told.err).splitlines()
        return status, [line for line in lines if not line.startswith("Next step: ")]

    return run


@pytest.fixture
def fakes(monkeypatch):
    """The three providers' servers; the SDKs find them through the variables that they read."""
    with Fakes(bodies=True) as fakes:
        monkeypatch.setenv("OPENAI_BASE_URL", fakes.urls["openai"])
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fakes.urls["anthropic"])
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", fakes.urls["gemini"])
        yield fakes


@pytest.fixture
def environ(fakes):
    """An environment with the fakes' key for each provider."""
    names = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
    return dict.fromkeys(names, fakes.key)


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """A folder of the figures that others published: ``golden/SOURCES.md`` tells of them."""
    folder = tmp_path_factory.mktemp("published")
    unpack(folder)
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """The browser in which all tests of this process look at pages."""
    from tests.helpers.browser import CHROMIUM, Browser

    if not CHROMIUM:
        pytest.skip("neither chromium nor google-chrome is here")
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(scope="session")
def _s3_server():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what moto's own imports warn about is not ours
        from moto.server import ThreadedMotoServer

        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def s3(_s3_server, monkeypatch, request):
    """The URL of an empty bucket in an object store on loopback."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", _s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "for-tests-only")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "for-tests-only")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    fs = fsspec.filesystem("s3")
    fs.clear_instance_cache()  # an earlier instance may know another server
    fs = fsspec.filesystem("s3")
    bucket = "".join(c if c.isalnum() else "-" for c in request.node.name.lower())[-60:].strip("-")
    fs.mkdir(bucket)
    yield f"s3://{bucket}"
    fs.rm(bucket, recursive=True)
    fs.clear_instance_cache()


def pytest_make_parametrize_id(val, argname):
    """Name a gzip by its argument: it may hold a time, and every process must collect the same."""
    return argname if isinstance(val, bytes) and val.startswith(b"\x1f\x8b") else None


def pytest_collection_modifyitems(items):
    """What takes long goes first, so that nothing waits for it in the end."""
    slowest = (
        *("cluster", "founding", "spending", "crash", "docs_run", "quickstart", "json"),
        *("pipeline", "path", "bakeoff_run", "empty_answers"),
        *(
            "api_run",
            "batch_crash",
            "batch_clients",
            "errors",
            "caps",
            "outage",
            "model_options",
            "batch",
        ),
    )
    places = {f"test_{name}": place for place, name in enumerate(slowest)}
    last = len(places)
    items.sort(
        key=lambda item: (
            places.get(item.path.stem, last),
            item.get_closest_marker("ray") is None,
        )
    )
