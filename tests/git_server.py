"""A git server with good and bad manners, for tests: git_server.py FOLDER HTTP_PORT GIT_PORT [CERT KEY]

Over HTTP, or HTTPS with a certificate. The first part of a path says what happens, the last is a
repository in FOLDER/repos:
  /open/X       served by git http-backend
  /auth/X       the same, for whoever has the password that FOLDER/token has at that moment
  /gate/X       as /auth/, but a fetch waits: FOLDER/waiting appears, until FOLDER/go does
  /slow/X       as /open/, and a fetch waits likewise; it fails if FOLDER/down is there by then
  /moved/X      redirects to /open/X for good; /lent/X for now; /loop/X to itself
  /away/X       redirects to what FOLDER/location says
  /status/N     answers with that status, and with the Authorization that it got in the text
  /hang/X       sends the first bytes of an answer and nothing more
  /garbage/X    lists X, and sends a pack that is none; /nonsense/X lists nonsense
  /broken/X     lists X, and sends the pack of FOLDER/pack
  /endless/X    lists X, and sends a pack without end; /refs/X lists refs without end
  /chatter/X    lists X, and sends progress without end
While FOLDER/down is there, every answer has the status that it names.
Over git:// there are /hang, /garbage and /endless.

Every request is a line of FOLDER/requests: its kind (list, fetch, other), its path, its host, and
"auth" or "-".
"""
import base64
import gzip
import http.server
import os
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
import zlib

folder, http_port, git_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
written = threading.Lock()


def read(name):
    with open(os.path.join(folder, name)) as file:
        return file.read().strip()


def note(line):
    with written, open(os.path.join(folder, "requests"), "a") as file:
        file.write(line + "\n")


def packet(data):
    return b"%04x" % (len(data) + 4) + data


def forever():
    time.sleep(3600)


def endless_pack():
    """One blob of a terabyte, as it is stored: no check but a bound ends it."""
    size, head = 1 << 40, []
    byte = 0x30 | size & 15
    size >>= 4
    while size:
        head.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    head.append(byte)
    yield b"PACK" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes(head)
    stream, noise = zlib.compressobj(0), os.urandom(1 << 16)
    while True:
        yield stream.compress(noise)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def answer(self, body):
        manner, _, rest = self.path.strip("/").partition("/")
        plain = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        kind = "fetch" if b"command=fetch" in plain else "list" if b"command=ls-refs" in plain else "other"
        auth = self.headers.get("Authorization", "")
        note(f"{kind} {self.path} {self.headers.get('Host')} {'auth' if auth else '-'}")
        if os.path.exists(os.path.join(folder, "down")):
            self.plain(int(read("down")), b"", {})
        elif manner == "status":
            self.plain(int(rest.split("/")[0]), f"you sent {auth}\n".encode(), {"Content-Type": "text/plain"})
        elif manner in ("moved", "lent", "loop", "away"):
            end = rest[rest.index("/"):] if "/" in rest else ""
            places = {"moved": "/open/" + rest, "lent": "/open/" + rest, "loop": self.path}
            place = places[manner] if manner in places else read("location") + end
            self.plain(302 if manner == "lent" else 301, b"", {"Location": place})
        elif manner in ("auth", "gate") and not self.is_known(auth):
            self.plain(401, b"", {"WWW-Authenticate": 'Basic realm="tests"'})
        elif manner == "hang":
            self.head({"Content-Length": "1000000"})
            self.wfile.write(b"001e# serv")
            forever()
        elif manner == "nonsense":
            self.plain(200, os.urandom(5000), {"Content-Type": "application/x-git-upload-pack-advertisement"})
        elif manner == "refs":
            self.refs()
        elif kind == "fetch" and manner in ("garbage", "broken", "endless", "chatter"):
            self.bad_pack(manner)
        else:
            if manner in ("gate", "slow") and kind == "fetch":
                open(os.path.join(folder, "waiting"), "w").close()
                while not os.path.exists(os.path.join(folder, "go")):
                    time.sleep(0.005)
            if os.path.exists(os.path.join(folder, "down")):
                self.plain(int(read("down")), b"", {})
            else:
                self.backend(rest, body)

    def is_known(self, auth):
        given = base64.b64decode(auth.removeprefix("Basic ")).decode()
        return given.partition(":")[2] == read("token")

    def head(self, headers, status=200):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def plain(self, status, text, headers):
        self.head(headers | {"Content-Length": str(len(text))}, status)
        self.wfile.write(text)

    def stream(self, kind, chunks):
        self.close_connection = True
        self.head({"Content-Type": f"application/x-git-upload-pack-{kind}", "Connection": "close"})
        for chunk in chunks:
            self.wfile.write(chunk)

    def refs(self):
        def lines():
            yield packet(b"# service=git-upload-pack\n") + b"0000"
            yield packet(b"0" * 39 + b"1 HEAD\0multi_ack\n")
            number = 0
            while True:
                number += 1
                yield b"".join(packet(b"%040x refs/heads/%d-%d\n" % (number, number, i)) for i in range(2000))
        self.stream("advertisement", lines())

    def bad_pack(self, manner):
        def bytes_of(chunks):
            yield packet(b"packfile\n")
            for chunk in chunks:
                for i in range(0, len(chunk), 60000):
                    yield packet(b"\1" + chunk[i:i + 60000])

        def chatter():
            yield packet(b"packfile\n")
            while True:
                yield packet(b"\2" + b"still counting\n" * 500)

        if manner == "chatter":
            self.stream("result", chatter())
        elif manner == "endless":
            self.stream("result", bytes_of(endless_pack()))
        elif manner == "broken":
            with open(os.path.join(folder, "pack"), "rb") as file:
                self.stream("result", list(bytes_of([file.read()])) + [b"0000"])
        else:
            self.stream("result", list(bytes_of([os.urandom(100000)])) + [b"0000"])

    def backend(self, rest, body):
        path, _, query = rest.partition("?")
        environment = dict(
            os.environ, GIT_PROJECT_ROOT=os.path.join(folder, "repos"), GIT_HTTP_EXPORT_ALL="1",
            PATH_INFO="/" + path, QUERY_STRING=query, REQUEST_METHOD=self.command,
            CONTENT_TYPE=self.headers.get("Content-Type", ""), CONTENT_LENGTH=str(len(body)),
            HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding", ""),
            GIT_PROTOCOL=self.headers.get("Git-Protocol", ""))
        said = subprocess.run(["git", "http-backend"], input=body, stdout=subprocess.PIPE, env=environment).stdout
        head, _, content = said.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(headers.pop("Status", "200").split()[0])
        self.plain(status, content, headers)


class RawHandler(socketserver.BaseRequestHandler):
    def exactly(self, size):
        return self.request.recv(size, socket.MSG_WAITALL)

    def handle(self):
        # git sends the length and the rest in two pieces, which may arrive one after the other.
        asked = self.exactly(int(self.exactly(4), 16) - 4)
        if b"/hang" in asked:
            self.request.sendall(b"00")
            forever()
        elif b"/garbage" in asked:
            self.request.sendall(b"zzzz" + os.urandom(1000))
        else:
            while True:
                self.request.sendall(packet(b"0" * 39 + b"1 refs/heads/x\0multi_ack\n") * 1000)


class HttpServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass  # clients that hang up are what some tests are about


class RawServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = allow_reuse_address = True
    handle_error = HttpServer.handle_error


web = HttpServer(("127.0.0.1", http_port), Handler)
if len(sys.argv) > 4:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[4], sys.argv[5])
    web.socket = context.wrap_socket(web.socket, server_side=True)
threading.Thread(target=RawServer(("127.0.0.1", git_port), RawHandler).serve_forever, daemon=True).start()
open(os.path.join(folder, "ready"), "w").close()
web.serve_forever()
