"""One call to the fakes without any SDK, and what it asks."""

import json
import urllib.error
import urllib.request

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["reasoning", "preference"],
    "properties": {"reasoning": {"type": "string"}, "preference": {"type": "number"}},
}
NAMED = {"name": "verdict", "strict": True, "schema": SCHEMA}
PAIR = "A: one [[grade=0]] B: two [[grade=3]]"


def chat(text=PAIR, **more):
    shape = {"type": "json_schema", "json_schema": NAMED}
    messages = [{"role": "user", "content": text}]
    return {"model": "m", "messages": messages, "response_format": shape, **more}


def post(fakes, text=PAIR, *, key=None, path="/openai/v1/chat/completions", body=None):
    """Status, headers and JSON of one call without any SDK."""
    key = fakes.key if key is None else key
    data = json.dumps(body or chat(text)).encode()
    headers = {"Authorization": f"Bearer {key}", "x-goog-api-key": key}
    request = urllib.request.Request(fakes.url + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.status, response.headers, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, json.load(error)
