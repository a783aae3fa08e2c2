"""A provider as a user would bring it: judges that count the words of the query in a document."""

import json

from zelo_ray.providers import Provider, Refused
from zelo_ray.records import Answer, Usage


class Overlap:
    """Answers in this process; a real one would open a client for ``settings.base_url``."""

    def __init__(self, settings):
        self.settings = settings

    async def send(self, request):
        if "forbidden" in request.user:
            raise Refused("it is about a forbidden thing", "refused")
        power = request.judge.options["power"] * (-1 if request.judge.model == "contrary" else 1)
        words = set(request.query.lower().split())
        a, b = (
            len(words & set(each.content.lower().split())) ** power for each in request.documents
        )
        verdict = {"reasoning": f"{a:g} and {b:g}", "preference": (b - a) / (a + b)}
        usage = Usage(input_tokens=len(request.user.split()), output_tokens=10)
        return Answer("ok", json.dumps(verdict), usage, model=request.judge.model)

    async def aclose(self):
        pass


PROVIDER = Provider(connect=Overlap, models=("plain", "contrary"), options={"power": 1})
KEYED = Provider(connect=Overlap, models=("plain",), key_variables=("OVERLAP_KEY",))
