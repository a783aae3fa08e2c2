"""The other half of the pages whose commands are run: see ``test_docs_run.py``."""

import pytest

from tests.test_docs_run import SLOW, reader, types_all

__all__ = ["reader"]
pytestmark = [pytest.mark.ray, pytest.mark.nightly]


@pytest.mark.parametrize("page", SLOW[1::2], ids=lambda page: page.name)
def test_what_a_page_tells_to_type_runs(page, request):
    types_all(page, request)
