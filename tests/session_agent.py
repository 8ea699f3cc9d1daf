"""What runs in a sandbox of the tests: a server as an agent's, with a file lock that two of one session
cannot both have. Standard library only.

    session_agent.py [--judge FOLDER] [--deaf] [--delay SECONDS] PORT

GET /alive, /env, /see?path=…, /file?name=…; PUT /file?name=…; POST /echo; GET /stream?count=N;
GET /big?bytes=N; /socket is a WebSocket that says everything back; GET /exit?code=N ends it. With --deaf SIGTERM does not.
GET /heard: the path and the key of each request so far. GET /idle?seconds=5,0: what /server_info then says, one
after the other, the last one for ever; "silent": it does not answer; "broken": it answers 503.
It listens on TEST_HOST, and its files are in TEST_WORKSPACE, where a node of the tests sets those.
"""
import base64
import fcntl
import hashlib
import json
import os
import signal
import socketserver
import struct
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

HEARD, IDLE = [], []
HOST = os.environ.get("TEST_HOST", "127.0.0.1")
WORKSPACE = os.environ.get("TEST_WORKSPACE", "/workspace")


def read_exactly(stream, count):
    data = b""
    while len(data) < count:
        part = stream.read(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


class Agent(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, body, kind="text/plain", **headers):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while True:
                size = int(self.rfile.readline(), 16)
                data += read_exactly(self.rfile, size)
                self.rfile.readline()
                if size == 0:
                    return data
        return read_exactly(self.rfile, int(self.headers.get("Content-Length") or 0))

    def do_GET(self):
        url = urlparse(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        HEARD.append([url.path, self.headers.get("X-Session-API-Key")])
        if url.path in ("/alive", "/health"):
            self.say(200, '{"status":"ok"}', "application/json")
        elif url.path == "/env":
            self.say(200, json.dumps(dict(os.environ)), "application/json")
        elif url.path == "/heard":
            self.say(200, json.dumps(HEARD), "application/json")
        elif url.path == "/idle":
            IDLE[:] = query["seconds"].split(",")
            self.say(200, "")
        elif url.path == "/server_info" and IDLE:
            says = IDLE.pop(0) if len(IDLE) > 1 else IDLE[0]
            if says == "silent":
                time.sleep(900)
            if says == "broken":
                return self.say(503, "")
            self.say(200, json.dumps({"idle_time": float(says)}), "application/json")
        elif url.path == "/see":
            self.say(200, json.dumps(see(query["path"])), "application/json")
        elif url.path == "/path":
            self.say(200, self.path)
        elif url.path == "/file":
            try:
                self.say(200, open(os.path.join(WORKSPACE, query["name"]), "rb").read())
            except OSError as error:
                self.say(404, str(error))
        elif url.path == "/moved":
            self.say(302, "", Location="/alive", Set_Cookie="a=b; Path=/")
        elif url.path == "/stream":
            self.stream(int(query["count"]))
        elif url.path == "/big":
            self.say(200, b"x" * int(query["bytes"]))
        elif url.path == "/socket":
            self.socket()
        elif url.path == "/exit":
            self.say(200, "")
            os._exit(int(query.get("code", "0")))
        else:
            self.say(404, "no such path")

    do_HEAD = do_GET

    def do_POST(self):
        self.say(200, self.body())

    def do_PUT(self):
        name = parse_qs(urlparse(self.path).query)["name"][0]
        with open(os.path.join(WORKSPACE, name), "wb") as file:
            file.write(self.body())
        self.say(200, "")

    def stream(self, count):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i in range(count):
            line = f"data: {i}\n\n".encode()
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            self.wfile.flush()
            time.sleep(0.01)
        self.wfile.write(b"0\r\n\r\n")

    def socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept",
                         base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        try:
            while True:
                first, second = read_exactly(self.rfile, 2)
                size = second & 0x7F
                if size == 126:
                    size = struct.unpack(">H", read_exactly(self.rfile, 2))[0]
                elif size == 127:
                    size = struct.unpack(">Q", read_exactly(self.rfile, 8))[0]
                mask = read_exactly(self.rfile, 4)
                data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(read_exactly(self.rfile, size)))
                head = bytes([first])
                head += bytes([size]) if size < 126 else struct.pack(">BH", 126, size)
                self.wfile.write(head + data)
                self.wfile.flush()
                if first & 0x0F == 8:
                    return
        except (EOFError, OSError):
            return


class Server(ThreadingHTTPServer):
    def server_bind(self):  # without asking who has this address
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]


def see(path):
    """What is at a path: its entries, or its text, or why it cannot be seen."""
    try:
        if os.path.isdir(path):
            return {"entries": sorted(os.listdir(path))}
        return {"text": open(path, errors="replace").read(4096)}
    except OSError as error:
        return {"error": error.strerror}


def main():
    signal.alarm(900)  # whatever became of the test
    words = sys.argv[1:]
    delay = 0.0
    if words[:1] == ["--judge"]:
        judge = open(os.path.join(words[1], hashlib.sha1(os.environ["SESSION_ID"].encode()).hexdigest()))
        words = words[2:]
        try:
            fcntl.flock(judge, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("VIOLATION: another sandbox of this session lives", flush=True)
            sys.exit(77)
    if words[:1] == ["--deaf"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        words = words[1:]
    if words[:1] == ["--delay"]:
        delay, words = float(words[1]), words[2:]
    print("the agent begins", flush=True)
    time.sleep(delay)
    server = Server((HOST, int(words[0])), Agent)
    server.daemon_threads = True
    server.serve_forever()


main()
