// What is measured. Each workload has its options with their defaults, the channels of its state, and run(), which
// returns the members of its result.
import { setImmediate, setTimeout } from "node:timers/promises";
import { Texts, chat, chatTurn, codingTurn } from "./data.mjs";

// The smallest value that is not below `share` of all.
function percentile(values, share) {
  if (values.length === 0) return 0;
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.max(Math.ceil(share * sorted.length), 1) - 1];
}

const median = (values) => percentile(values, 0.5);
const middleAndTail = (values) => ({ p50: median(values), p99: percentile(values, 0.99) });
const latencies = (values) => ({ ...middleAndTail(values), p999: percentile(values, 0.999) });
const sum = (values) => values.reduce((all, each) => all + each, 0);

function withFirstAndLast(values) {
  const tenth = Math.max(Math.floor(values.length / 10), 1);
  const first = middleAndTail(values.slice(0, tenth));
  const last = middleAndTail(values.slice(-tenth));
  return {
    ...middleAndTail(values),
    first_p50: first.p50,
    first_p99: first.p99,
    last_p50: last.p50,
    last_p99: last.p99,
  };
}

function decileMedians(values) {
  const at = (decile) => Math.floor((decile * values.length) / 10);
  return Array.from({ length: 10 }, (_, i) => median(values.slice(at(i), Math.max(at(i + 1), at(i) + 1))));
}

async function wallOf(work) {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}

function requireCount(what, found, expected) {
  if (found !== expected) throw new Error(`${what}: ${found} came back of ${expected}`);
}

// Keeps `inFlight` pieces of work going until there are no more, or the time is over. start(i) returns a promise.
async function keepInFlight(count, inFlight, limit, start) {
  const begin = performance.now();
  let next = 0;
  const lane = async () => {
    while (next < count && performance.now() - begin < limit * 1000) await start(next++);
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return { done: next, wall_s: (performance.now() - begin) / 1000 };
}

async function growth(contender, { texts: file, turns, limit }) {
  const texts = new Texts(file);
  await contender.open({ fresh: true });
  const thread = await contender.thread("agent-0");
  const wall = [];
  const cpu = [];
  let total = 0;
  let payload = 0;
  while (wall.length < turns && total < limit * 1000) {
    const { values, bytes } = chatTurn(texts, 1024);
    thread.add(values);
    payload += bytes;
    const cpuBefore = process.cpuUsage();
    const milliseconds = await wallOf(() => thread.save(values));
    const { user, system } = process.cpuUsage(cpuBefore);
    wall.push(milliseconds);
    cpu.push((user + system) / 1000);
    total += milliseconds;
  }
  const peak = process.resourceUsage().maxRSS * 1024; // before loads, which are no part of saving
  const bytes = await contender.bytes();
  const loads = [];
  for (let i = 0; i < 5; ++i) {
    let found;
    loads.push(await wallOf(async () => (found = await contender.load("agent-0"))));
    requireCount("messages", found.messages.length, 2 * wall.length);
  }
  return {
    turns,
    turns_done: wall.length,
    wall_s: total / 1000,
    cpu_s: sum(cpu) / 1000,
    save_ms: withFirstAndLast(wall),
    cpu_ms: withFirstAndLast(cpu),
    deciles_ms: decileMedians(wall),
    bytes,
    payload_bytes: payload,
    peak_rss_bytes: peak,
    load_ms: median(loads),
  };
}

// Databases are always left, so `keep` says nothing new.
async function fleet(contender, { texts: file, agents, turns, "in-flight": inFlight, limit }) {
  const texts = new Texts(file);
  await contender.open({ fresh: true });
  const work = Array.from({ length: agents * turns }, () => chatTurn(texts, 2048));
  const threads = [];
  for (let agent = 0; agent < agents; ++agent) threads.push(await contender.thread(`agent-${agent}`));
  const lastSave = threads.map(() => Promise.resolve());
  const latency = [];
  let payload = 0;

  const { done, wall_s } = await keepInFlight(work.length, inFlight, limit, (i) => {
    const agent = i % agents;
    const { values, bytes } = work[i];
    payload += bytes;
    lastSave[agent] = lastSave[agent].then(async () => {
      threads[agent].add(values);
      latency.push(await wallOf(() => threads[agent].save(values)));
    });
    return lastSave[agent];
  });
  return {
    agents,
    turns,
    in_flight: inFlight,
    saves: work.length,
    saves_done: done,
    wall_s,
    saves_per_second: done / wall_s,
    batch_mean: null,
    latency_ms: latencies(latency),
    bytes: await contender.bytes(),
    payload_bytes: payload,
  };
}

// The same agents in every run.
function seededRandom(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

async function resume(contender, { agents, turns, loads, "in-flight": inFlight, limit }) {
  await contender.open({ fresh: false });
  const random = seededRandom(1);
  const latency = [];
  const { done, wall_s } = await keepInFlight(loads, inFlight, limit, async () => {
    const agent = `agent-${random(agents)}`;
    let found;
    latency.push(await wallOf(async () => (found = await contender.load(agent))));
    requireCount(`messages of ${agent}`, found.messages.length, 2 * turns);
  });
  return {
    agents,
    in_flight: inFlight,
    loads: done,
    loads_per_second: done / wall_s,
    latency_ms: latencies(latency),
  };
}

async function firstLoad(contender, { texts: file, messages, prepare }) {
  if (prepare === "yes") {
    const { values } = chat(new Texts(file), messages, 1024);
    await contender.open({ fresh: true });
    const thread = await contender.thread("agent-0");
    thread.add(values);
    await thread.save(values);
    return undefined;
  }
  let found;
  const load_ms = await wallOf(async () => {
    await contender.open({ fresh: false });
    found = await contender.load("agent-0");
  });
  requireCount("messages", found.messages.length, messages);
  return { messages, load_ms };
}

async function heavy(contender, { texts: file, turns, limit }) {
  const texts = new Texts(file);
  await contender.open({ fresh: true });
  const thread = await contender.thread("agent-0");
  let done = 0;
  let files = 0;
  let total = 0;
  let payload = 0;
  while (done < turns && total < limit * 1000) {
    const { values, bytes } = codingTurn(texts, ++done);
    thread.add(values);
    files += Object.keys(values.files).length;
    payload += bytes;
    total += await wallOf(() => thread.save(values));
  }
  const found = await contender.load("agent-0");
  requireCount("messages", found.messages.length, 2 * done);
  requireCount("files", Object.keys(found.files).length, files);
  return {
    turns,
    turns_done: done,
    wall_s: total / 1000,
    bytes: await contender.bytes(),
    payload_bytes: payload,
  };
}

// The delays of a timer of 1 ms behind its due times, while work() runs.
async function tickDelays(work) {
  const delays = [];
  let isOver = false;
  const ticker = async () => {
    while (!isOver) {
      const due = performance.now() + 1;
      await setTimeout(1);
      delays.push(Math.max(performance.now() - due, 0));
    }
  };
  const ticking = ticker();
  await work();
  isOver = true;
  await ticking;
  return delays;
}

async function eventLoop(contender, { texts: file, bytes }) {
  const texts = new Texts(file);
  await contender.open({ fresh: true });
  const thread = await contender.thread("agent-0");
  const { bytes: pairBytes } = chatTurn(texts, 1024);
  const conversation = chat(texts, 2 * Math.ceil(bytes / pairBytes), 1024);
  thread.add(conversation.values);
  await thread.save(conversation.values);

  const milliseconds = 3000;
  const idle = await tickDelays(() => setTimeout(milliseconds));
  let saves = 0;
  const busy = await tickDelays(async () => {
    const begin = performance.now();
    while (performance.now() - begin < milliseconds) {
      const { values } = chatTurn(texts, 1024);
      thread.add(values);
      await thread.save(values);
      ++saves;
      // better-sqlite3 and MemorySaver never wait for the system: without this no timer would run at all.
      await setImmediate();
    }
  });
  return {
    conversation_bytes: conversation.bytes,
    saves,
    idle_ms: middleAndTail(idle),
    busy_ms: middleAndTail(busy),
  };
}

const chatState = ["messages"];
const noLimit = Infinity;

export const workloads = {
  growth: { run: growth, channels: chatState, options: { turns: 1000, limit: noLimit } },
  fleet: {
    run: fleet,
    channels: chatState,
    options: { agents: 1000, turns: 20, "in-flight": 64, limit: noLimit, keep: "yes" },
  },
  resume: {
    run: resume,
    channels: chatState,
    options: { agents: 1000, turns: 20, loads: 1000, "in-flight": 64, limit: noLimit },
  },
  "first-load": { run: firstLoad, channels: chatState, options: { messages: 10_000, prepare: "no" } },
  heavy: { run: heavy, channels: ["messages", "files"], options: { turns: 200, limit: noLimit } },
  "event-loop": { run: eventLoop, channels: chatState, options: { bytes: 10_000_000 } },
};
