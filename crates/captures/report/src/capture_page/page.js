// Everything put together.

async function start() {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser cannot unpack the data (DecompressionStream is missing: Chrome 103, Firefox 113 or Safari 16.4 can)");
  const head = JSON.parse(new TextDecoder().decode(await unpack(text("head"))));
  const when = new Date(head.start_ns / 1e6).toISOString().replace("T", " ").replace(/\..*/, " UTC");
  const names = head.captures.map(c => c.file.split("/").at(-1));
  document.title = `Capture analysis: ${names[0] ?? ""}${names.length > 1 ? ` and ${names.length - 1} more` : ""}`;
  document.getElementById("made").textContent = `${names.slice(0, 3).join(", ")}${names.length > 3 ? `, … (${names.length} files)` : ""} · ${head.flows ? `starts ${when}` : head.udp.datagrams ? "UDP only" : "no TCP and no UDP"} · Cellerator ${head.made_by.cellerator}`;
  document.getElementById("command").textContent = head.made_by.command;
  tiles(head);
  coursePlot(head);
  captures(head);
  multipath(head);
  document.getElementById("flows").parentElement.hidden = !head.flows && head.udp.datagrams > 0;
  udp(head);
  distributions(head);
  const table = new FlowTable(head, row => showFlow(head, row));
  const wanted = /flow=(\d+)/.exec(location.hash)?.[1];
  const first = head.rows.find(row => String(row.id) === wanted) ?? table.rows.find(row => row.data);
  if (first) await table.open(first);
  document.documentElement.dataset.ready = "yes";
}

start().catch(error => {
  const failure = document.getElementById("failure");
  failure.hidden = false;
  failure.textContent = `This page could not be shown: ${error.message}`;
  throw error;
});
