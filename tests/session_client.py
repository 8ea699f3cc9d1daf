"""A client of the remote runtime API, written from its description: both generations' polling habits,
files over pauses, streams and a WebSocket through the proxy. Standard library only.

    session_client.py URL API_KEY SESSION COMMAND_JSON

Prints one line and exits 0 when everything was as it should be.
"""
import base64
import http.client
import json
import os
import socket
import struct
import sys
import time
from urllib.parse import quote, urlparse

base, api_key, session, command = sys.argv[1:5]
place = urlparse(base)


def ask(method, path, body=None, key=True, headers=None, raw=False):
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=180)
    all_headers = dict(headers or {})
    if key:
        all_headers["X-API-Key"] = api_key
    data = body if raw else json.dumps(body).encode() if body is not None else None
    connection.request(method, path, body=data, headers=all_headers)
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    return reply.status, text, reply


def call(method, path, body=None):
    status, text, _ = ask(method, path, body)
    return status, json.loads(text)


def expect(fact, what):
    if not fact:
        print("FAILED:", what)
        sys.exit(1)


def eventually(what, fact):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if fact():
            return
        time.sleep(0.05)
    expect(False, "not in time: " + what)


def agent(method, runtime, path, body=None, with_key=True):
    prefix = urlparse(runtime["url"]).path
    headers = {"X-Session-API-Key": runtime["session_api_key"]} if with_key else {}
    return ask(method, prefix + path, body, key=False, headers=headers, raw=True)


def read_frame(stream):
    first, second = stream.read(2)
    size = second & 0x7F
    if size == 126:
        size = struct.unpack(">H", stream.read(2))[0]
    return first & 0x0F, stream.read(size)


def write_frame(connection, kind, data):
    mask = os.urandom(4)
    size = bytes([0x80 | len(data)]) if len(data) < 126 else struct.pack(">BH", 0x80 | 126, len(data))
    masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
    connection.sendall(bytes([0x80 | kind]) + size + mask + masked)


def talk(runtime):
    """A WebSocket through the proxy: what is said comes back, and the end is agreed."""
    connection = socket.create_connection((place.hostname, place.port), timeout=60)
    key = base64.b64encode(os.urandom(16)).decode()
    path = urlparse(runtime["url"]).path + "/socket?session_api_key=" + runtime["session_api_key"]
    connection.sendall((f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: websocket\r\n"
                        f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                        f"Sec-WebSocket-Key: {key}\r\n\r\n").encode())
    stream = connection.makefile("rb")
    expect(b" 101 " in stream.readline(), "the WebSocket is not accepted")
    while stream.readline() != b"\r\n":
        pass
    for text in (b"hello", b"x" * 50_000):
        write_frame(connection, 1, text)
        expect(read_frame(stream) == (1, text), "the WebSocket says something else")
    write_frame(connection, 8, struct.pack(">H", 1000))
    expect(read_frame(stream)[0] == 8, "the WebSocket does not end")
    connection.close()


status, _, _ = ask("GET", "/list", key=False)
expect(status == 401, "without the API key: %d" % status)
status, answer = call("GET", "/sessions/" + quote(session, safe=""))
expect(status == 404 and answer["detail"], "a session that is not there: %d" % status)

wanted = {"image": "test", "command": json.loads(command), "working_dir": "/workspace",
          "environment": {"MINE": "yes"}, "session_id": session, "resource_factor": 1}
status, runtime = call("POST", "/start", wanted)
expect(status == 200 and runtime["status"] in ("starting", "running"), "start: %s" % runtime)
expect(runtime["session_api_key"], "start gives no key")
rid = runtime["runtime_id"]

# The older generation polls the runtime, the newer one the session, or many at once.
eventually("ready", lambda: call("GET", "/runtime/" + rid)[1]["pod_status"] == "ready")
eventually("running", lambda: call("GET", "/sessions/" + quote(session, safe=""))[1]["status"] == "running")
status, batch = call("GET", "/sessions/batch?ids=nobody&ids=" + quote(session, safe=""))
expect([one["runtime_id"] for one in batch] == [rid], "batch: %s" % batch)
status, listed = call("GET", "/list")
expect(rid in [one["runtime_id"] for one in listed["runtimes"]], "list: %s" % listed)
status, again = call("POST", "/start", wanted)
expect((again["runtime_id"], again["session_api_key"]) == (rid, runtime["session_api_key"]),
       "a second start gives another runtime")

status, text, _ = agent("GET", runtime, "/alive", with_key=False)
expect(status == 200, "alive: %d" % status)
status, text, _ = agent("GET", runtime, "/path?a=%2F&b=c")
expect(text == b"/path?a=%2F&b=c", "the path is changed: %s" % text)
status, text, reply = agent("GET", runtime, "/moved")
prefix = urlparse(runtime["url"]).path
expect(reply.getheader("Location") == prefix + "/alive", "Location: %s" % reply.getheader("Location"))
expect("Path=" + prefix + "/" in reply.getheader("Set-Cookie"), "the cookie's path")
big = os.urandom(3_000_000)
status, text, _ = agent("POST", runtime, "/echo", big)
expect(text == big, "3 MB do not come back: %d" % status)
status, text, _ = agent("GET", runtime, "/stream?count=20")
expect(text.count(b"data: ") == 20, "the stream is not whole")
talk(runtime)

for cycle in range(3):
    content = b"kept %d" % cycle
    status, _, _ = agent("PUT", runtime, "/file?name=note", content)
    expect(status == 200, "a file is not written: %d" % status)
    status, answer = call("POST", "/pause", {"runtime_id": rid})
    expect(status == 200, "pause: %s" % answer)
    status, paused = call("GET", "/runtime/" + rid)
    expect(paused["status"] == "paused", "after pause: %s" % paused["status"])
    status, _, _ = agent("GET", runtime, "/alive", with_key=False)
    expect(status == 503, "a paused runtime answers %d" % status)
    if cycle < 2:
        status, resumed = call("POST", "/resume", {"runtime_id": rid})
        expect(status == 200 and resumed["runtime_id"] == rid, "resume: %s" % resumed)
        runtime = resumed
        eventually("resumed", lambda: call("GET", "/runtime/" + rid)[1]["status"] == "running")
    # The last time a request with the session's key does it.
    status, text, _ = agent("GET", runtime, "/file?name=note")
    expect((status, text) == (200, content), "the file is gone: %d %s" % (status, text))

status, answer = call("POST", "/stop", {"runtime_id": rid})
expect(status == 200, "stop: %s" % answer)
status, answer = call("GET", "/sessions/" + quote(session, safe=""))
expect(status == 404, "after stop: %d" % status)
status, _, _ = agent("GET", runtime, "/alive")
expect(status == 404, "a stopped runtime answers %d" % status)
print("everything was as it should be")
