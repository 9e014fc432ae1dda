"""What the document cannot say about the requests that schemathesis makes of it."""

import re

import schemathesis

# A cursor begins with the code of the list and filter that it belongs to. That the code has to fit another parameter is nothing that
# OpenAPI can express, so that a valid cursor is given the code of the status that is sent with it. Everything else stays as generated.
WHOLE = re.compile(r"(?:pz|ay|nx|sw)(?:[0-9a-f][g-v]){16}")
CODES = {None: "pz", "available": "ay", "pending": "nx", "sold": "sw"}


@schemathesis.hook
def before_call(context, case, kwargs):
    query = case.query
    if case.operation.path != "/pets" or not isinstance(query, dict):
        return
    cursor, status = query.get("cursor"), query.get("status")
    if isinstance(cursor, str) and WHOLE.fullmatch(cursor) and (status is None or isinstance(status, str)):
        query["cursor"] = CODES.get(status, cursor[:2]) + cursor[2:]
