"""What the instances of the browser's tests run: a page that shows which headers it was asked with
and says hello over a WebSocket. At /seen it tells what it was asked for, at /sw.js it has a service
worker that answers everything itself. Everything is of Python's own library.
"""

import asyncio
import base64
import hashlib
import html
import json
import os
import socket

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PAGE = """<!doctype html>
<html lang="en"><head><title>The instance</title><link rel="icon" href="data:,"></head>
<body><h1>The instance</h1><pre id="headers">%s</pre><script>
const socket = new WebSocket(new URL("talk", location.href.replace("http", "ws")));
socket.onopen = () => socket.send("hello");
socket.onmessage = (said) => { window.echo = said.data; };
</script></body></html>"""

WORKER = b"""self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(clients.claim()));
self.addEventListener("fetch", (event) => event.respondWith(new Response("from the worker")));"""
SEEN = []


async def talk(reader, writer, key):
    accept = base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest())
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )
    while True:
        first, second = await reader.readexactly(2)
        mask = await reader.readexactly(4)
        body = await reader.readexactly(second & 127)
        body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(body))
        if first & 15 == 8:
            return
        said = b"echo of " + body
        writer.write(bytes([first, len(said)]) + said)
        await writer.drain()


def answer(writer, kind, body):
    writer.write(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " + kind.encode() + b"\r\n"
        b"Set-Cookie: own=instance; Path=/\r\nSet-Cookie: tossed=1; Domain=localhost; Path=/\r\n"
        b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    )


async def serve(reader, writer):
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in filter(None, head[1:]):
            name, value = line.split(":", 1)
            headers[name.strip().lower()] = value.strip()
        method, path, _ = head[0].split(" ", 2)
        if path == "/seen":
            return answer(writer, "application/json", json.dumps(SEEN).encode())
        if path != "/healthz":
            SEEN.append(method + " " + path)
        if path == "/sw.js":
            return answer(writer, "text/javascript", WORKER)
        if headers.get("upgrade", "").lower() == "websocket":
            return await talk(reader, writer, headers["sec-websocket-key"])
        answer(writer, "text/html; charset=utf-8", (PAGE % html.escape(json.dumps(headers))).encode())
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(os.environ["SOJOURN_PORT_HTTP"]))
    await server.serve_forever()


if "GATE" in os.environ:
    with socket.create_connection(("127.0.0.2", int(os.environ["GATE"]))) as gate:
        gate.recv(1)
asyncio.run(main())
