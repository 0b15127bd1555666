// node savers.mjs WORKLOAD --contender NAME [--key value]...: measures one of LangGraph's savers, and prints the
// result as a line of JSON. Exit codes: 1 failed, 2 not understood, 77 cannot run here.
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { workloads } from "./workloads.mjs";

// What was asked for cannot be understood.
const usage = (message) => Object.assign(new Error(message), { exitCode: 2 });

const common = {
  contender: "",
  texts: "",
  folder: "",
  postgres: process.env.WAYMARK_POSTGRES ?? "",
  durability: "default",
};
const durabilities = ["full", "relaxed", "default"];

function readOption(key, text, otherwise) {
  if (typeof otherwise === "string") return text;
  const value = Number(text);
  // A limit may be a part of a second; everything else is counted.
  if (text.trim() === "" || !(value > 0) || (key !== "limit" && !Number.isInteger(value)))
    throw usage(`--${key} takes a number, not '${text}'`);
  return value;
}

function readOptions(workload, words) {
  const options = { ...common, ...workloads[workload].options };
  for (let i = 0; i < words.length; i += 2) {
    const key = words[i].slice(2);
    if (!words[i].startsWith("--") || i + 1 === words.length)
      throw usage(`'${words[i]}' is not a --key with a value`);
    if (!Object.hasOwn(options, key)) throw usage(`--${key} means nothing to ${workload}`);
    options[key] = readOption(key, words[i + 1], options[key]);
  }
  return options;
}

function readContender({ contender, folder, durability }) {
  const [, storage, delta] = /^langgraph-(sqlite|postgres|memory)(-delta)?$/.exec(contender) ?? [];
  if (storage === undefined)
    throw usage(
      `there is no contender '${contender}'; there are langgraph-sqlite, langgraph-postgres and langgraph-memory, ` +
        "each also with -delta",
    );
  if (!durabilities.includes(durability))
    throw usage(`--durability is one of ${durabilities.join(", ")}, not '${durability}'`);
  if (storage === "sqlite" && folder === "") throw usage("--folder is missing");
  return { storage, isDelta: delta !== undefined };
}

// Imported here, so that missing packages are told apart from other failures.
async function findContender(...what) {
  try {
    const { makeContender } = await import("./contenders.mjs");
    return await makeContender(...what);
  } catch (error) {
    if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    const folder = dirname(fileURLToPath(import.meta.url));
    throw Object.assign(new Error(`LangGraph is not installed: run 'npm ci' in ${folder}`), { exitCode: 77 });
  }
}

async function main([workload, ...words]) {
  const names = Object.keys(workloads);
  if (workload === undefined) throw usage(`name a workload: ${names.join(", ")}`);
  if (!names.includes(workload)) throw usage(`there is no workload '${workload}'; there are ${names.join(", ")}`);
  const { run, channels } = workloads[workload];
  const options = readOptions(workload, words);
  const { storage, isDelta } = readContender(options);

  const contender = await findContender(storage, isDelta, channels, options);
  const result = await run(contender, options);
  await contender.close();
  if (result === undefined) return;
  // What is only in memory survives nothing, whatever was asked for.
  const durability = storage === "memory" ? "none" : options.durability;
  console.log(JSON.stringify({ workload, contender: options.contender, durability, ...result }));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`savers: ${error.message}`);
  process.exit(error.exitCode ?? 1);
});
