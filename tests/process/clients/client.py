"""Sends a large body with urllib or http.client, and prints the statuses: one for each try, or what went wrong."""

import http.client
import sys
import urllib.error
import urllib.parse
import urllib.request

library, url, key, address, size, tries = sys.argv[1:]
body = b"x" * int(size)
headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "X-Forwarded-For": address}


def with_urllib():
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request) as response:
            return response.status
    except urllib.error.HTTPError as error:
        error.read()
        return error.code


def with_http_client():
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request("POST", parts.path, body=body, headers=headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


for _ in range(int(tries)):
    try:
        print(with_urllib() if library == "urllib" else with_http_client())
    except Exception as error:
        print(repr(error))
