// An editor made with the official TypeScript SDK: a session with modes, plan, approval, cancel,
// files, list, load, fork and resume.
// Arguments: the SDK's main file, the program, its model, the workspace. Prints what it got as JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, program, model, cwd] = process.argv.slice(2);
const acp = await import(sdk);
const child = spawn(program, ["acp", "--model", model], { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const { agent, client } = acp.methods;
const updates = [];
const plans = [];
const saved = [];
let cancelWhenRunning = null;

const editor = acp.client({ name: "test" });
editor.onRequest(client.session.requestPermission, async () => {
  updates.push("asked");
  return { outcome: { outcome: "selected", optionId: "allow" } };
});
editor.onRequest(client.fs.readTextFile, async ({ params }) => {
  if (!params.path.endsWith("/a.py")) throw acp.RequestError.resourceNotFound(params.path);
  return { content: "x = 1\n# unsaved\n" };
});
editor.onRequest(client.fs.writeTextFile, async ({ params }) => {
  saved.push(params.content);
  return {};
});
editor.onNotification(client.session.update, async ({ params }) => {
  const { update } = params;
  updates.push(update.sessionUpdate);
  if (update.sessionUpdate === "plan") plans.push(update.entries.map((one) => one.status));
  if (update.status === "in_progress" && cancelWhenRunning) cancelWhenRunning();
});

await editor.connectWith(stream, async (context) => {
  const fs = { readTextFile: true, writeTextFile: true };
  const hello = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: { fs } };
  await context.request(agent.initialize, hello);
  const session = await context.request(agent.session.new, { cwd, mcpServers: [] });
  const { sessionId } = session;
  const say = async (text, id = sessionId) => {
    const prompt = [{ type: "text", text }];
    return (await context.request(agent.session.prompt, { sessionId: id, prompt })).stopReason;
  };
  const setMode = (modeId) => context.request(agent.session.setMode, { sessionId, modeId });
  await setMode("plan");
  const stops = [await say("plan it")];
  await setMode("ask");
  const effort = { sessionId, configId: "effort", value: "high" };
  await context.request(agent.session.setConfigOption, effort);
  stops.push(await say("go"));
  await setMode("auto");
  cancelWhenRunning = () => context.notify(agent.session.cancel, { sessionId });
  stops.push(await say("wait"));
  cancelWhenRunning = null;
  const listed = await context.request(agent.session.list, { cwd });
  await context.request(agent.session.load, { sessionId, cwd, mcpServers: [] });
  const forked = await context.request("session/fork", { sessionId, cwd, mcpServers: [] });
  await context.request(agent.session.close, { sessionId });
  await context.request(agent.session.resume, { sessionId, cwd, mcpServers: [] });
  stops.push(await say("and again"));
  const result = {
    stops,
    plans,
    saved,
    options: session.configOptions.map((one) => one.id),
    listed: listed.sessions.map((one) => one.sessionId === sessionId),
    isForked: forked.sessionId !== sessionId,
    updates: [...new Set(updates)].sort(),
  };
  console.log(JSON.stringify(result));
});
child.stdin.end();
process.exit(0);
