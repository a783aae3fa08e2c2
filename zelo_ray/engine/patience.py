"""When to give up a judge that does not answer. Time is passed in, in seconds of any clock."""

from zelo_ray.providers import Retry
from zelo_ray.records import Answer, Judge

_SILENT_REQUESTS = 20
_TRIES = 3  # to reach a server named by its URL
_UNREACHED_SECONDS = 15.0  # in which no connection to a provider can be made


class Patience:
    """What has been heard of one judge, and when that is too little to go on.

    Args:
        judge: who is asked.
        seconds: for how long it may answer nothing.
        reached: whether it was asked before, in the same run.
    """

    def __init__(self, judge: Judge, seconds: float, *, reached: bool = False) -> None:
        self._judge, self._seconds = judge, seconds
        self.alone = bool(judge.base_url) and not reached
        """whether its first request goes alone, to find out whether there is such a server"""
        self._reached = reached
        self._tries, self._silent = 0, 0
        self._heard_at: float | None = None  # or, before that, when it was first asked
        self._unreached_at: float | None = None
        self._throttled_at: float | None = None

    def asked(self, now: float) -> None:
        """Its first call begins; later ones are no news."""
        self._heard_at = now if self._heard_at is None else self._heard_at

    def replied(self) -> None:
        """It replied, be it with a refusal: so there is a server, and the account is alive."""
        self._reached, self._throttled_at = True, None

    def is_starting(self, trouble: Retry) -> bool:
        """Whether it was never reached: it may just start, and such calls are no attempts."""
        return trouble.unreached and not self._reached

    def missed(self, trouble: Retry, now: float) -> str:
        """A call came to nothing; why to give the judge up, if that is so."""
        if not trouble.unreached:
            self._reached = True
            silence = now - (now if self._heard_at is None else self._heard_at)
            if self.alone and not trouble.throttled and silence > self._seconds:
                return f"{trouble}; nothing else for {_told(silence)}; {self._advice}"
        elif not self._reached:
            self._tries += 1
            self._unreached_at = now if self._unreached_at is None else self._unreached_at
            seconds = now - self._unreached_at
            tries = self._tries if self._judge.base_url else 0
            if tries >= _TRIES or (not tries and seconds >= _UNREACHED_SECONDS):
                return f"{trouble}, {self._tries} times in {_told(seconds)}; {self._advice}"
        return ""

    def throttled(self, lasting: float, now: float) -> str:
        """A 429 came; why to give the judge up, if that is so.

        Args:
            lasting: for how long its account has answered nothing else to anybody.
            now: the time.
        """
        self._throttled_at = now if self._throttled_at is None else self._throttled_at
        alike = min(lasting, now - self._throttled_at)
        if alike <= self._seconds:
            return ""
        return (
            f"{self._judge.name}: nothing but 429 (rate limit) for {_told(alike)}; see what the "
            "account may do, and who else uses it; raise --patience, or run the same command "
            "later: nothing is lost"
        )

    def ended(self, answer: Answer, now: float) -> str:
        """A request came to its end; why to give the judge up, if that is so."""
        if answer.status != "failed":
            self._silent, self._heard_at = 0, now
            return ""
        self._silent += 1
        silence = now - (now if self._heard_at is None else self._heard_at)
        if self._silent < _SILENT_REQUESTS or silence <= self._seconds:
            return ""
        requests = f"{self._silent} requests in a row, for {_told(silence)}"
        return f"no answer to {requests}: {answer.reason}"

    @property
    def _advice(self) -> str:
        network = "the network, and the base URL if you set one"
        what = "that the server runs, and its URL" if self._judge.base_url else network
        return f"check {what}, then run the same command again"


def _told(seconds: float) -> str:
    """How long that is, in words."""
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
