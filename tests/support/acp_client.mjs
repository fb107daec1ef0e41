// An editor made with the official TypeScript SDK: one session with modes, approval, list and load.
// Arguments: the SDK's main file, the program, its model, the workspace. Prints what it got as JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, program, model, cwd] = process.argv.slice(2);
const acp = await import(sdk);
const child = spawn(program, ["acp", "--model", model], { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const { agent, client } = acp.methods;
const updates = [];

const editor = acp.client({ name: "test" });
editor.onRequest(client.session.requestPermission, async () => {
  updates.push("asked");
  return { outcome: { outcome: "selected", optionId: "allow" } };
});
editor.onNotification(client.session.update, async ({ params }) => {
  updates.push(params.update.sessionUpdate);
});

await editor.connectWith(stream, async (context) => {
  const hello = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} };
  await context.request(agent.initialize, hello);
  const session = await context.request(agent.session.new, { cwd, mcpServers: [] });
  const { sessionId } = session;
  for (const modeId of ["plan", "ask"]) {
    await context.request(agent.session.setMode, { sessionId, modeId });
  }
  const effort = { sessionId, configId: "effort", value: "high" };
  await context.request(agent.session.setConfigOption, effort);
  const prompt = [{ type: "text", text: "go" }];
  const answer = await context.request(agent.session.prompt, { sessionId, prompt });
  const listed = await context.request(agent.session.list, { cwd });
  await context.request(agent.session.load, { sessionId, cwd, mcpServers: [] });
  await context.request(agent.session.close, { sessionId });
  const result = {
    stop: answer.stopReason,
    options: session.configOptions.map((one) => one.id),
    listed: listed.sessions.map((one) => one.sessionId === sessionId),
    updates: [...new Set(updates)].sort(),
  };
  console.log(JSON.stringify(result));
});
child.stdin.end();
process.exit(0);
