//! The HTML report: it needs nothing else, its data is what was captured, and it works in a browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::DeflateDecoder;
use serde_json::{Value, json};

use tempfile::TempDir;

use super::{analyze, capture, text};

/// The page of the made capture.
fn page(folder: &TempDir) -> String {
    let file = folder.path().join("report.html");
    let out = analyze(&["--html", &file.display().to_string(), "-"], &capture());
    assert!(out.status.success(), "{}", text(&out.stderr));
    std::fs::read_to_string(file).expect("a page")
}

fn element<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page.split_once(&format!("id=\"{id}\">")).expect("the element").1;
    start.split_once("</script>").expect("its end").0
}

fn unpacked(base64: &str) -> Vec<u8> {
    let packed = STANDARD.decode(base64).expect("base64");
    let mut bytes = Vec::new();
    DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("deflate");
    bytes
}

#[test]
fn the_page_needs_nothing_else() {
    let page = page(&tempfile::tempdir().expect("a folder"));
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for outside in
        ["http://", "https://", "<link", " src=", "url(", "@import", "fetch(", "XMLHttpRequest", "import("]
    {
        assert!(!without_namespace.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"), "a browser is told to load nothing");
}

#[test]
fn the_data_in_the_page_is_what_was_captured() {
    let page = page(&tempfile::tempdir().expect("a folder"));
    let head: Value = serde_json::from_slice(&unpacked(element(&page, "head"))).expect("JSON");
    assert_eq!((&head["flows"], &head["captures"][0]["packets"]), (&1.into(), &8.into()));
    assert_eq!(
        head["course"]["packets"].as_array().expect("bins").iter().filter_map(Value::as_u64).sum::<u64>(),
        8
    );
    assert_eq!(head["found"]["time_outs"], 1);
    let row = &head["rows"][0];
    assert_eq!((&row["a"], &row["data"][2]), (&"10.0.0.1:1000".into(), &8.into()));
    let [from, len] = [0, 1].map(|index| row["data"][index].as_u64().expect("a place") as usize);
    let flow = unpacked(&element(&page, "data")[from..from + len]);
    // Two lengths of one or two bytes each stand before the report.
    let report = flow.windows(2).position(|two| two == b"{\"").expect("the report");
    let mut reports = serde_json::Deserializer::from_slice(&flow[report..]).into_iter::<Value>();
    let report = reports.next().expect("a report").expect("JSON");
    assert_eq!(report["directions"][0]["retransmissions"]["rto"], 1);
}

/// What a person does with the page; gives what went wrong.
const VISIT: &str = r##"(async () => {
  const problems = [];
  const frames = n => new Promise(done => { const step = () => n-- > 0 ? requestAnimationFrame(step) : done(); step(); });
  const check = (holds, what) => { if (!holds) problems.push(what); };
  for (let i = 0; i < 600 && document.documentElement.dataset.ready !== "yes"; i++) await frames(1);
  check(document.documentElement.dataset.ready === "yes", "never ready");
  await frames(5);
  const flow = document.getElementById("flow"), canvas = flow.querySelector("canvas"), box = canvas.getBoundingClientRect();
  check(flow.querySelectorAll("canvas:not(.over)").length === 5, "five graphs");
  const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  check(new Set(pixels).size > 20, "nothing drawn");
  const width = () => flow.shown.view.range[1] - flow.shown.view.range[0], before = width();
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -200, clientX: box.left + 300, clientY: box.top + 100, bubbles: true, cancelable: true }));
  await frames(3);
  check(width() < before, "the wheel zooms");
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "n" }));
  await frames(3);
  const said = flow.querySelector("[role=status]").textContent;
  check(said.includes("time-out") || said.includes("SYN"), `the next event is said: ${said}`);
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "0" }));
  await frames(3);
  check(Math.abs(width() - before) < 1e-9, "0 shows all");
  let tip = "";
  for (let x = 95; x < box.width && !tip; x += 4) for (let y = 10; y < 420 && !tip; y += 8) {
    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
    tip = flow.querySelector(".tip").hidden ? "" : flow.querySelector(".tip").textContent;
  }
  check(tip.includes("1→2") || tip.includes("2→1"), "hovering tells of a packet");
  const filter = document.getElementById("filter");
  for (const [words, shown] of [["nobody", 0], ["10.0.0.2 bytes>1k", 1], ["bytes>1g", 0], ["time_outs", 1]]) {
    filter.value = words;
    filter.dispatchEvent(new Event("input"));
    check(document.querySelectorAll("#table tbody tr").length === shown, `filter ${words}`);
  }
  const name = e => (e.textContent + (e.getAttribute("aria-label") ?? "") + (e.labels?.[0]?.textContent ?? "")).trim();
  check([...document.querySelectorAll("button, input")].every(e => e.hidden || name(e)), "a control without a name");
  return problems.join("; ");
})()"##;

/// Whether the page is as dark, or as light, as `DARK` says, its drawings too; gives what is not.
const SHADE: &str = r##"(async () => {
  const frames = n => new Promise(done => { const step = () => n-- > 0 ? requestAnimationFrame(step) : done(); step(); });
  await frames(5);
  const shade = (r, g, b) => (r + g + b) / 765, problems = [];
  const check = (value, what) => { if (DARK ? value > 0.35 : value < 0.65) problems.push(`${what} has shade ${value}`); };
  check(shade(...getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).map(Number)), "the page");
  const canvas = document.querySelector("#flow canvas:not(.over)"), found = new Map();
  // Of a copy: a browser warns of canvases that are read again and again.
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const pixels = new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  for (const pixel of pixels) found.set(pixel, (found.get(pixel) ?? 0) + 1);
  const [most] = [...found].filter(([pixel]) => pixel >>> 24 > 200).sort((a, b) => b[1] - a[1])[0] ?? [0];
  if (found.size < 10) problems.push("nothing drawn");
  if (most) check(shade(most & 255, most >> 8 & 255, most >> 16 & 255), "a drawing");
  return problems.join("; ");
})()"##;

/// Chromium behind its debugging pipe: JSON messages ended by zero bytes.
struct Browser {
    child: Child,
    said: BufReader<ChildStdout>,
    /// Everything that is no answer.
    events: Vec<Value>,
}

impl Browser {
    fn start(folder: &TempDir) -> Self {
        let program = format!(
            "exec chromium --headless --no-sandbox --disable-gpu --window-size=1400,2000 \
             --remote-debugging-pipe --user-data-dir='{}' 3<&0 4>&1 2>/dev/null",
            folder.path().join("profile").display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Chromium starts");
        let said = BufReader::new(child.stdout.take().expect("its answers"));
        Self { child, said, events: Vec::new() }
    }

    /// Sends a command and waits for its answer.
    fn ask(&mut self, id: u64, session: Option<&str>, method: &str, params: &Value) -> Value {
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let pipe = self.child.stdin.as_mut().expect("its pipe");
        pipe.write_all(format!("{message}\0").as_bytes()).expect("it listens");
        loop {
            let answer = self.hear();
            if answer["id"] == id {
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// The next message.
    fn hear(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.said.read_until(0, &mut bytes).expect("it answers");
        serde_json::from_slice(bytes.strip_suffix(&[0]).expect("a message")).expect("JSON")
    }

    /// Waits for an event, unless it has come.
    fn wait_for(&mut self, method: &str) {
        while !self.events.iter().any(|event| event["method"] == method) {
            let event = self.hear();
            self.events.push(event);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs Chromium: make chromium"]
fn the_page_works_in_a_browser() {
    let folder = tempfile::tempdir().expect("a folder");
    page(&folder);
    let mut browser = Browser::start(&folder);
    let target = browser.ask(1, None, "Target.createTarget", &json!({ "url": "about:blank" }));
    let target = json!({ "targetId": target["targetId"], "flatten": true });
    let session = browser.ask(2, None, "Target.attachToTarget", &target);
    let session = Some(session["sessionId"].as_str().expect("a session").to_owned());
    for (id, domain) in (3..).zip(["Page", "Runtime", "Network", "Log"]) {
        browser.ask(id, session.as_deref(), &format!("{domain}.enable"), &json!({}));
    }
    let url = format!("file://{}", folder.path().join("report.html").display());
    browser.ask(8, session.as_deref(), "Page.navigate", &json!({ "url": url }));
    browser.wait_for("Page.loadEventFired");
    let visit = json!({ "expression": VISIT, "awaitPromise": true, "returnByValue": true });
    let outcome = browser.ask(9, session.as_deref(), "Runtime.evaluate", &visit);
    assert_eq!(outcome["result"]["value"], "", "{outcome}");
    let mut shade = |id, scheme: &str| {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.ask(id, session.as_deref(), "Emulation.setEmulatedMedia", &features);
        let script = SHADE.replace("DARK", if scheme == "dark" { "true" } else { "false" });
        let look = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let outcome = browser.ask(id + 1, session.as_deref(), "Runtime.evaluate", &look);
        assert_eq!(outcome["result"]["value"], "", "{scheme}: {outcome}");
    };
    shade(10, "light");
    shade(12, "dark");
    // Printed from the dark page; then it is dark again.
    let paper = browser.ask(14, session.as_deref(), "Page.printToPDF", &json!({ "printBackground": true }));
    let pdf = STANDARD.decode(paper["data"].as_str().unwrap_or_default()).expect("base64");
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 20_000, "{} bytes of PDF", pdf.len());
    let look = "document.documentElement.classList.contains('paper')";
    let outcome = browser.ask(15, session.as_deref(), "Runtime.evaluate", &json!({ "expression": look }));
    assert_eq!(outcome["result"]["value"], false, "{outcome}");
    for event in &browser.events {
        let what = event["method"].as_str().unwrap_or_default();
        assert!(
            !["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"].contains(&what),
            "{event}"
        );
        if what == "Network.requestWillBeSent" {
            let wanted = event["params"]["request"]["url"].as_str().unwrap_or_default();
            assert!(wanted == url || wanted.starts_with("blob:"), "the page asked for {wanted}");
        }
    }
}
