"""A game server that speaks Agones' JSON over plain HTTP: a line over UDP is one request of it."""

import http.client
import json
import os
import signal
import socket
import sys
import threading
import urllib.parse

# A node without networks of Pods gives them another port.
PORT = int(os.environ.get("SOJOURN_PORT_GAME") or 7777)
SDK_PORT = int(os.environ["AGONES_SDK_HTTP_PORT"])
PING_SECONDS = 1
REQUEST_SECONDS = 15

watched = []
silent = threading.Event()


class Refused(Exception):
    pass


def request(method, path, body=None):
    """One request on a connection of its own; what it answers."""
    connection = http.client.HTTPConnection("localhost", SDK_PORT, timeout=REQUEST_SECONDS)
    headers = {"Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    said = json.loads(answer.read())
    connection.close()
    if answer.status != 200:
        assert set(said) == {"code", "message", "details"}, said
        raise Refused(f"{said['code']} {said['message']}")
    return said


def tell(method, path, body):
    """A request that is only taken in."""
    assert request(method, path, body) == {}


def whole(number):
    """Whole numbers of 64 bits are strings in the JSON of protobuf."""
    assert isinstance(number, str), number
    return int(number)


def counter(name, change=None):
    path = "/v1beta1/counters/" + urllib.parse.quote(name)
    said = request("GET", path) if change is None else request("PATCH", path, change)
    assert said.pop("name") == name
    return {field: whole(value) for field, value in said.items()}


def listed(name, method="GET", verb="", body=None):
    said = request(method, f"/v1beta1/lists/{urllib.parse.quote(name)}{verb}", body)
    assert said["name"] == name, said
    return {"capacity": whole(said["capacity"]), "values": said["values"]}


def described():
    """As the tests compare it with the object."""
    server = request("GET", "/gameserver")
    meta, status, health = server["object_meta"], server["status"], server["spec"]["health"]
    whole(meta["generation"])
    players = status["players"]
    if players is not None:
        assert whole(players["count"]) == len(players["ids"])
    return {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "uid": meta["uid"],
        "created": whole(meta["creation_timestamp"]),
        "deleted": whole(meta["deletion_timestamp"]),
        "labels": meta["labels"],
        "annotations": meta["annotations"],
        "health": [
            health["disabled"],
            health["period_seconds"],
            health["failure_threshold"],
            health["initial_delay_seconds"],
        ],
        "state": status["state"],
        "address": status["address"],
        "ports": [[port["name"], port["port"]] for port in status["ports"]],
        "players": players and players["ids"],
        "counters": {
            name: {field: whole(value) for field, value in one.items()}
            for name, one in status["counters"].items()
        },
        "lists": {
            name: {"capacity": whole(one["capacity"]), "values": one["values"]}
            for name, one in status["lists"].items()
        },
    }


def together(many):
    """So many of each at the same time, none waiting for another."""
    problems = []

    def attempt(call, *words):
        try:
            CALLS[call](*words)
        except Exception as problem:
            problems.append(problem)

    threads = [
        threading.Thread(target=attempt, args=words)
        for number in map(str, range(int(many)))
        for words in (
            ("setLabel", "label-" + number, number),
            ("setAnnotation", "annotation-" + number, number),
            ("incrementCounter", "rooms", "1"),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def change_counter(field, sign=1):
    return lambda name, number: drop(counter(name, {field: str(sign * int(number))}))


def drop(_):
    return None


CALLS = {
    "ready": lambda: tell("POST", "/ready", {}),
    "allocate": lambda: tell("POST", "/allocate", {}),
    "reserve": lambda seconds: tell("POST", "/reserve", {"seconds": seconds}),
    "shutdown": lambda: tell("POST", "/shutdown", {}),
    "setLabel": lambda key, value: tell("PUT", "/metadata/label", {"key": key, "value": value}),
    "setAnnotation": lambda key, value: tell(
        "PUT", "/metadata/annotation", {"key": key, "value": value}
    ),
    "gameServer": described,
    "playerConnect": lambda id: request("POST", "/alpha/player/connect", {"playerID": id})["bool"],
    "playerDisconnect": lambda id: request("POST", "/alpha/player/disconnect", {"playerID": id})[
        "bool"
    ],
    "setPlayerCapacity": lambda most: tell("PUT", "/alpha/player/capacity", {"count": most}),
    "getPlayerCapacity": lambda: whole(request("GET", "/alpha/player/capacity")["count"]),
    "getPlayerCount": lambda: whole(request("GET", "/alpha/player/count")["count"]),
    "isPlayerConnected": lambda id: request("GET", "/alpha/player/connected/" + id)["bool"],
    "getConnectedPlayers": lambda: request("GET", "/alpha/player/connected")["list"],
    "getCounterCount": lambda name: counter(name)["count"],
    "incrementCounter": change_counter("countDiff"),
    "decrementCounter": change_counter("countDiff", -1),
    "setCounterCount": change_counter("count"),
    "getCounterCapacity": lambda name: counter(name)["capacity"],
    "setCounterCapacity": change_counter("capacity"),
    "getListCapacity": lambda name: listed(name)["capacity"],
    "setListCapacity": lambda name, most: drop(
        listed(name, "PATCH", "?update_mask=capacity", {"capacity": most})
    ),
    "getListValues": lambda name: listed(name)["values"],
    "getListLength": lambda name: len(listed(name)["values"]),
    "listContains": lambda name, value: value in listed(name)["values"],
    "appendListValue": lambda name, value: drop(
        listed(name, "POST", ":addValue", {"value": value})
    ),
    "deleteListValue": lambda name, value: drop(
        listed(name, "POST", ":removeValue", {"value": value})
    ),
    "watched": lambda: watched,
    "together": together,
    "silence": silent.set,
}


def watch():
    """The states that the watch shows, in their order: a line of JSON for each change."""
    connection = http.client.HTTPConnection("localhost", SDK_PORT)
    connection.request("GET", "/watch/gameserver")
    for line in connection.getresponse():
        [(field, server)] = json.loads(line).items()
        assert field == "result", line
        if watched[-1:] != [server["status"]["state"]]:
            watched.append(server["status"]["state"])


def ping():
    while True:
        tell("POST", "/health", {})
        if silent.wait(PING_SECONDS):
            return


def answer(line):
    name, *words = line.split()
    try:
        return "OK " + json.dumps(CALLS[name](*words), separators=(",", ":"))
    except Refused as refused:
        return f"ERROR {refused}"
    except Exception as problem:
        return f"ERROR {problem!r}"


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    game = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    game.bind(("0.0.0.0", PORT))
    for task in (watch, ping):
        threading.Thread(target=task, daemon=True).start()
    CALLS["ready"]()
    while True:
        line, player = game.recvfrom(1500)
        game.sendto((answer(line.decode()) + "\n").encode(), player)


main()
