// What is saved: the same data for every contender.
import { randomUUID } from "node:crypto";
import { openSync, readSync, statSync } from "node:fs";

// Pieces of one long text, one after the other, from its beginning again when it ends. Read piece by piece: all of it
// would be part of the memory that is measured.
export class Texts {
  #file;
  #at = 0;

  constructor(path) {
    if (path === "") throw Object.assign(new Error("--texts is missing"), { exitCode: 2 });
    if (statSync(path).size === 0) throw new Error(`there is no text in '${path}'`);
    this.#file = openSync(path);
  }

  next(bytes) {
    const piece = Buffer.allocUnsafe(bytes);
    for (let filled = 0; filled < bytes; ) {
      const taken = readSync(this.#file, piece, filled, bytes - filled, this.#at);
      filled += taken;
      this.#at = taken === 0 ? 0 : this.#at + taken;
    }
    return piece.toString("latin1");
  }
}

function timestamp() {
  const now = performance.timeOrigin + performance.now();
  const microseconds = String(Math.floor(now * 1000) % 1000).padStart(3, "0");
  return new Date(now).toISOString().replace("Z", `${microseconds}Z`);
}

// A plain object: LangChain's own classes are larger in JSON, and slower to revive.
function message(role, content, more) {
  return { id: randomUUID(), role, content, ...more, timestamp: timestamp() };
}

const jsonBytes = (messages) =>
  messages.reduce((sum, each) => sum + Buffer.byteLength(JSON.stringify(each)), 0);

// A turn is what it adds to the channels of the state, and the bytes of that.
export function chatTurn(texts, messageBytes) {
  const messages = [message("user", texts.next(messageBytes)), message("assistant", texts.next(messageBytes))];
  return { values: { messages }, bytes: jsonBytes(messages) };
}

// A whole conversation as one turn.
export function chat(texts, count, messageBytes) {
  const roles = ["user", "assistant"];
  const messages = Array.from({ length: count }, (_, i) => message(roles[i % 2], texts.next(messageBytes)));
  return { values: { messages }, bytes: jsonBytes(messages) };
}

// A coding agent that keeps its files in the state.
export function codingTurn(texts, turn) {
  const files = {};
  files[`source/module_${turn}.cpp`] = texts.next(8000);
  files[`test/module_${turn}.cpp`] = texts.next(8000);
  const call = { id: `call-${turn}`, name: "run", arguments: { turn } };
  const messages = [
    message("assistant", texts.next(800), { tool_calls: [call] }),
    message("tool", texts.next(5000), { tool_call_id: call.id }),
  ];
  if (turn % 5 === 0) files[`result_${turn}.txt`] = texts.next(100_000);
  const fileBytes = Object.values(files).reduce((sum, text) => sum + text.length, 0);
  return { values: { messages, files }, bytes: jsonBytes(messages) + fileBytes };
}
