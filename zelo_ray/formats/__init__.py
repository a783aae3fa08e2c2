"""What goes in and what comes out: input lines, output tables."""

import fsspec


def check_url(url: str) -> str:
    """The path or URL itself, if there is a file system for it.

    Raises:
        ValueError: its scheme is unknown, or wants a package that is not installed.
    """
    try:
        fsspec.url_to_fs(url)
    except ImportError as error:
        raise ValueError(f"{url}: {error} (is it the extra s3 or gcs of zelo-ray?)") from None
    except ValueError as error:
        raise ValueError(f"{url}: {error}") from None
    return url
