"""Keep where the rows of a table stand in their files, as numbers."""


class RowPlaces:
    """Places of rows in files, as numbers: texts would take more room than the ids of the rows."""

    def __init__(self) -> None:
        self._numbers = dict[str, int]()
        self._files = list[str]()

    def to_number(self, place: str) -> int:
        """Return the number of a place such as ``rows.csv:21``."""
        file = place.rstrip("0123456789")
        row = place[len(file) :]
        if row.startswith("0"):  # no number of a row, which has no zeros before it
            file, row = place, ""
        number = self._numbers.setdefault(file, len(self._files))
        if number == len(self._files):
            self._files.append(file)
        return number << 40 | (int(row) + 1 if row else 0)

    def to_text(self, number: int) -> str:
        """Return the place that a number is of."""
        file, row = self._files[number >> 40], number & (1 << 40) - 1
        return f"{file}{row - 1}" if row else file
