"""What the instances of the tests run: a small web application.

It counts its visits in a file of its folder, tells which headers it was sent, and echoes what it is
told over a WebSocket. After a visit to `/close` it listens no more, after one to `/hang` it takes
connections and says nothing; it goes on running either way. Everything is of Python's own library.
"""

import asyncio
import base64
import hashlib
import json
import os
import struct
import sys

PORT = int(os.environ["SOJOURN_PORT_HTTP"])
FOLDER = os.environ.get("FOLDER") or os.environ["HOME"]
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
SERVERS = []
HUNG = asyncio.Event()


def visit():
    path = os.path.join(FOLDER, "visits")
    count = 1
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            count = int(file.read()) + 1
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(count))
    os.rename(path + ".new", path)
    return count


async def echo(reader, writer, key):
    accept = base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest()).decode()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept.encode() + b"\r\n\r\n"
    )
    while True:
        first, second = await reader.readexactly(2)
        length = second & 127
        if length == 126:
            (length,) = struct.unpack("!H", await reader.readexactly(2))
        mask = await reader.readexactly(4)
        body = await reader.readexactly(length)
        body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(body))
        if first & 15 == 8:
            return
        head = bytes([first, length]) if length < 126 else bytes([first, 126]) + struct.pack("!H", length)
        writer.write(head + body)
        await writer.drain()


async def serve(reader, writer):
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {}
        for line in head[1:]:
            if line:
                name, value = line.split(":", 1)
                headers[name.strip().lower()] = value.strip()
        if HUNG.is_set():
            await asyncio.Event().wait()
        if headers.get("upgrade", "").lower() == "websocket":
            return await echo(reader, writer, headers["sec-websocket-key"])
        if path == "/healthz":
            answer = {}
        else:
            answer = {"method": method, "path": path, "headers": headers, "visits": visit()}
        body = json.dumps(answer).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Set-Cookie: own=instance; Path=/\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
        )
        await writer.drain()
        if path == "/close":
            SERVERS[0].close()
        if path == "/hang":
            HUNG.set()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    SERVERS.append(await asyncio.start_server(serve, "127.0.0.1", PORT))
    print("serving", file=sys.stderr, flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
