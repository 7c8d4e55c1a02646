// A game server that uses Agones' client for Node.js, and nothing else: a line over UDP is one call of it.
"use strict";

const dgram = require("node:dgram");

const AgonesSDK = require("@google-cloud/agones-sdk");

// A node without networks of Pods gives them another port.
const PORT = Number(process.env.SOJOURN_PORT_GAME || 7777);
const PING_INTERVAL_MS = 1000;

const sdk = new AgonesSDK();
const { alpha, beta } = sdk;
const watched = [];
let pings;

const nothing = (call) => call.then(() => null);

const calls = {
  ready: () => nothing(sdk.ready()),
  allocate: () => nothing(sdk.allocate()),
  reserve: (seconds) => nothing(sdk.reserve(Number(seconds))),
  shutdown: () => nothing(sdk.shutdown()),
  setLabel: (key, value) => nothing(sdk.setLabel(key, value)),
  setAnnotation: (key, value) => nothing(sdk.setAnnotation(key, value)),
  gameServer: async () => described(await sdk.getGameServer()),

  playerConnect: (id) => alpha.playerConnect(id),
  playerDisconnect: (id) => alpha.playerDisconnect(id),
  setPlayerCapacity: (capacity) => nothing(alpha.setPlayerCapacity(Number(capacity))),
  getPlayerCapacity: () => alpha.getPlayerCapacity(),
  getPlayerCount: () => alpha.getPlayerCount(),
  isPlayerConnected: (id) => alpha.isPlayerConnected(id),
  getConnectedPlayers: () => alpha.getConnectedPlayers(),

  getCounterCount: (name) => beta.getCounterCount(name),
  incrementCounter: (name, by) => nothing(beta.incrementCounter(name, Number(by))),
  decrementCounter: (name, by) => nothing(beta.decrementCounter(name, Number(by))),
  setCounterCount: (name, count) => nothing(beta.setCounterCount(name, Number(count))),
  getCounterCapacity: (name) => beta.getCounterCapacity(name),
  setCounterCapacity: (name, most) => nothing(beta.setCounterCapacity(name, Number(most))),

  getListCapacity: (name) => beta.getListCapacity(name),
  setListCapacity: (name, most) => nothing(beta.setListCapacity(name, Number(most))),
  getListValues: (name) => beta.getListValues(name),
  getListLength: (name) => beta.getListLength(name),
  listContains: (name, value) => beta.listContains(name, value),
  appendListValue: (name, value) => nothing(beta.appendListValue(name, value)),
  deleteListValue: (name, value) => nothing(beta.deleteListValue(name, value)),

  // The states that the watch showed, in their order.
  watched: async () => watched,
  // So many of each at the same time, none waiting for another.
  together: (many) => {
    const numbers = [...Array(Number(many)).keys()];
    return nothing(
      Promise.all(
        numbers.flatMap((number) => [
          sdk.setLabel(`label-${number}`, `${number}`),
          sdk.setAnnotation(`annotation-${number}`, `${number}`),
          beta.incrementCounter("rooms", 1),
        ]),
      ),
    );
  },
  // It is not alive any more, as far as anybody hears.
  silence: async () => {
    clearInterval(pings);
    return null;
  },
};

// As the tests compare it with the object.
function described({ objectMeta, spec, status }) {
  const counters = status.countersMap.map(([name, { count, capacity }]) => [
    name,
    { count, capacity },
  ]);
  const lists = status.listsMap.map(([name, { capacity, valuesList }]) => [
    name,
    { capacity, values: valuesList },
  ]);
  const { health } = spec;
  return {
    name: objectMeta.name,
    namespace: objectMeta.namespace,
    uid: objectMeta.uid,
    created: objectMeta.creationTimestamp,
    deleted: objectMeta.deletionTimestamp,
    labels: Object.fromEntries(objectMeta.labelsMap),
    annotations: Object.fromEntries(objectMeta.annotationsMap),
    health: [
      health.disabled,
      health.periodSeconds,
      health.failureThreshold,
      health.initialDelaySeconds,
    ],
    state: status.state,
    address: status.address,
    ports: status.portsList.map(({ name, port }) => [name, port]),
    players: status.players ? status.players.idsList : null,
    counters: Object.fromEntries(counters),
    lists: Object.fromEntries(lists),
  };
}

async function answer(line) {
  const [name, ...words] = line.trim().split(" ");
  const call = calls[name];
  if (!call) {
    return `ERROR there is no call ${name}`;
  }
  try {
    return `OK ${JSON.stringify(await call(...words))}`;
  } catch (error) {
    return `ERROR ${error.code} ${error.details}`;
  }
}

function see(state) {
  if (watched[watched.length - 1] !== state) {
    watched.push(state);
  }
}

async function main() {
  await sdk.connect();
  sdk.watchGameServer(
    (server) => see(server.status.state),
    (error) => see(`ERROR ${error.code}`),
  );
  const ping = () => sdk.health((error) => console.error("a ping is lost:", error));
  ping();
  pings = setInterval(ping, PING_INTERVAL_MS);
  const socket = dgram.createSocket("udp4");
  socket.on("message", async (line, { address, port }) => {
    socket.send(`${await answer(line.toString())}\n`, port, address);
  });
  socket.bind(PORT, () => sdk.ready());
  process.on("SIGTERM", () => {
    clearInterval(pings);
    sdk.close();
    process.exit(0);
  });
}

main();
