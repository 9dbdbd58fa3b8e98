//! What a user sees.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use io::netlink::LinkChange;
use io::{Clock, Namespace, SpawnOptions};
use units::Duration;

use crate::dashboard::browser::Browser;
use crate::network::{Network, PROGRAM, Running};
use crate::traffic::{Traffic, add_clients};

const TOKEN: &str = "a token of many characters";

const DESK: (u32, u32) = (1280, 800);
const PHONE: (u32, u32) = (360, 800);

/// Enter and Escape, as WebDriver has them.
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const RIGHT: &str = "\u{e014}";

/// Closes a file with a secret to others, as its reader wants it.
fn close(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../box/top/tests/tls").join(name);
    if name.ends_with(".key") {
        close(&path);
    }
    path.to_str().unwrap().to_owned()
}

/// An accelerator with downloads of four subscribers, and its page.
struct Site {
    network: Network,
    accelerator: Running,
    dashboard: Running,
    traffic: Traffic,
    address: String,
}

impl Site {
    fn open(what: &str) -> Self {
        let network = Network::build(what);
        add_clients(&network, 3);
        let accelerator = network.accelerate(&["--shards", "2", "--no-bypass", "--recover-within", "0 ms"]);
        // A link of the radio's kind: narrow, and with a queue of its own.
        let narrow = "tc qdisc add dev m0 root tbf rate 30mbit burst 30k latency 150ms";
        let mut tc = Command::new("sh");
        tc.args(["-c", narrow]);
        let narrowed = network.middle.spawn(tc, SpawnOptions::default()).unwrap().wait().unwrap();
        assert!(narrowed.success(), "{narrow}");
        let traffic = Traffic::start(&network, &[2, 3, 4, 5]);
        let dashboard =
            Running::start(&network.middle, &["dashboard", &network.name, "--listen", "127.0.0.1:0"]);
        let line = dashboard.wait_for("dashboard at ");
        let address = line.trim_start_matches("dashboard at ").to_owned();
        Self { network, accelerator, dashboard, traffic, address }
    }

    fn browse(&self, size: (u32, u32), is_dark: bool) -> Browser {
        let browser = Browser::start(&self.network.middle, size, is_dark);
        browser.open(&self.address);
        browser.wait_for(
            "rates are there",
            "document.querySelector('.tile .value').innerText.includes('Mbit/s')",
        );
        browser
    }

    fn end(self) {
        drop((self.dashboard, self.traffic));
        self.accelerator.stop();
    }
}

/// Links of the subscribers' own, each with a rate between one and three Mbit/s and a queue of some hundred ms to a
/// second: what a full buffer at a base station is like.
fn narrow_each(network: &Network, clients: &[u8]) {
    let mut script =
        "set -e; tc qdisc add dev m0 root handle 1: htb default 1; tc class add dev m0 parent 1: classid \
                      1:1 htb rate 10gbit quantum 60000"
            .to_owned();
    for last in clients {
        let (class, rate) = (100 + u32::from(*last), 1_000 + u32::from(*last % 8) * 250);
        script += &format!(
            "; tc class add dev m0 parent 1: classid 1:{class} htb rate {rate}kbit burst 3k quantum 1514; tc qdisc add dev m0 \
             parent 1:{class} bfifo limit 150k; tc filter add dev m0 parent 1: protocol ip u32 match ip dst \
             10.1.0.{last} flowid 1:{class}"
        );
    }
    let mut sh = Command::new("sh");
    sh.args(["-c", &script]);
    let done = network.middle.spawn(sh, SpawnOptions::default()).unwrap().wait().unwrap();
    assert!(done.success(), "{script}");
}

/// Lets time go by.
fn pause(time: Duration) {
    let end = Clock::now() + time;
    while Clock::now() < end {
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
}

/// Nobody has complained of anything: no script failed, nothing was refused by the policy.
fn assert_quiet(browser: &Browser) {
    assert_eq!(browser.messages(), [""; 0]);
}

fn raise_loopback(namespace: &Namespace) {
    let netlink = namespace.netlink().unwrap();
    let lo = netlink.index_of("lo").unwrap();
    netlink.change_link(lo, &LinkChange { up: Some(true), ..LinkChange::default() }).unwrap();
}

/// What a command of ours prints in the box, which must succeed.
fn printed(network: &Network, arguments: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = network.middle.spawn(command, SpawnOptions::default()).unwrap().wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "needs Chromium: make chromium"]
fn the_page_is_live_and_opens_a_subscriber() {
    let site = Site::open("live");
    let browser = site.browse(DESK, false);
    assert!(browser.text("#state").starts_with("live"), "{}", browser.text("#state"));
    browser.wait_for(
        "all subscribers are there",
        "document.querySelectorAll('#subscribers tbody tr').length === 4",
    );
    let about = browser.text("#about");
    assert_eq!(about, format!("{}: w0 to servers, m0 to subscribers", site.network.name));
    // Live flows stand first, whatever their order.
    let order = "return liveFirst([{state: 'closed'}, {state: 'accelerated'}, {state: 'control'}, {state: 'accelerated', \
                 in_flight_bytes: 9}]).map((flow) => flow.state + (flow.in_flight_bytes || ''))";
    assert_eq!(browser.run(order), serde_json::json!(["accelerated9", "accelerated", "control", "closed"]));
    // What a small curve shows is said, and it is still there when the page is loaded again.
    browser.wait_for(
        "a curve has points",
        "document.querySelector('.tile path').getAttribute('d').split('L').length > 4",
    );
    assert!(
        browser.text(".tile .most").starts_with("most ") && browser.text(".tile .span").contains("2 min")
    );
    browser.run("location.reload()");
    browser.wait_for(
        "the curve goes on where it was",
        "document.readyState === 'complete' && document.querySelector('.tile path')?.getAttribute('d').split('L').length > 4",
    );
    browser
        .wait_for("all are there again", "document.querySelectorAll('#subscribers tbody tr').length === 4");
    // It changes by itself, and whoever has the focus keeps it.
    browser.run("document.querySelector('#subscribers a').focus(); window.focusedAt = document.activeElement.textContent");
    let before = browser.text("#totals");
    browser.wait_for(
        "the rates have changed",
        &format!("document.querySelector('#totals').innerText !== {}", serde_json::json!(before)),
    );
    assert_eq!(browser.run("return document.activeElement.textContent === window.focusedAt"), true);
    browser.picture("overview-1280");
    browser.assert_fits();
    let rows = browser
        .run("return document.querySelector('#subscribers').getBoundingClientRect().top < innerHeight");
    assert_eq!(rows, true, "the subscribers begin on the first screen");

    browser.click("#subscribers a[href='#10.1.0.3']");
    browser.wait_for(
        "its title is there",
        "document.querySelector('#one-title').innerText === 'Subscriber 10.1.0.3'",
    );
    let seen = browser.run(
        "const box = (id) => document.querySelector(id).getBoundingClientRect(); \
         return [document.querySelector('#overview').hidden, box('#one-title').top >= 0, box('#charts').top < innerHeight / 2]",
    );
    assert_eq!(seen, serde_json::json!([true, true, true]), "it is at the top of the page");
    // Ten times a second: 40 points take four seconds.
    browser.wait_for("points come", "Number(document.querySelector('#charts').dataset.points) >= 1");
    let began = Clock::now();
    let first =
        browser.run("return Number(document.querySelector('#charts').dataset.points)").as_u64().unwrap();
    browser.wait_for(
        "points come",
        &format!("Number(document.querySelector('#charts').dataset.points) >= {}", first + 40),
    );
    let took = Clock::now().saturating_since(began).as_millis();
    eprintln!("40 points in {took} ms");
    assert!((3_500..12_000).contains(&took), "40 points in {took} ms");
    browser.wait_for("its flow is there", "document.querySelector('#flows').innerText.includes('10.2.0.2')");
    let legend = browser.text("#charts figcaption");
    assert!(legend.contains("gets") && legend.contains("bit/s"), "{legend}");
    let drawn = browser.run(
        "return [...document.querySelectorAll('#charts canvas')].map((canvas) => { const data = canvas.getContext('2d')\
         .getImageData(0, 0, canvas.width, canvas.height).data; let ink = 0; for (let at = 3; at < data.length; at += 4) \
         ink += data[at] > 0; return ink; })",
    );
    assert!(drawn.as_array().unwrap().iter().all(|ink| ink.as_u64() > Some(500)), "{drawn}");
    browser.picture("subscriber-1280");
    browser.assert_fits();
    // Keys: Escape goes back to where one came from, Enter opens it again.
    browser.press(ESCAPE);
    browser.wait_for("the list is back", "!document.querySelector('#overview').hidden");
    browser.wait_for("the link has the focus", "document.activeElement.textContent === '10.1.0.3'");
    browser.press(ENTER);
    browser.wait_for("it is open again", "!document.querySelector('#one').hidden");
    browser.run("document.querySelector('#charts canvas').focus()");
    browser.press(RIGHT);
    assert_quiet(&browser);
    drop(browser);
    site.end();
}

#[test]
#[ignore = "needs Chromium: make chromium"]
fn narrow_and_dark_pages_are_whole() {
    let site = Site::open("narrow");
    for (name, size, is_dark) in [("360", PHONE, false), ("360-dark", PHONE, true), ("1280-dark", DESK, true)]
    {
        let browser = site.browse(size, is_dark);
        browser.wait_for(
            "subscribers are there",
            "document.querySelectorAll('#subscribers tbody tr').length === 4",
        );
        browser.assert_fits();
        // Each figure stands beside its name, in one line, also where it is long.
        let long = "{address: '10.1.0.2', delivered_bps: 248e6, queueing_us: 131200, srtt_us: 135200, \
                    retransmitted_bps: 26.6e6, held_bytes: 52.4e6, flows: 1234, is_control: true}";
        let broken = browser.run(&format!(
            "tableInto(byId('subscribers'), SUBSCRIBERS, [{long}], () => 'one', ''); \
             return [...document.querySelectorAll('#subscribers td')].filter((cell) => cell.offsetHeight > 36 || \
             cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)"
        ));
        assert_eq!(broken, serde_json::json!([]));
        browser.wait_for(
            "all are there again",
            "document.querySelectorAll('#subscribers tbody tr').length === 4",
        );
        browser.picture(&format!("overview-{name}"));
        let colour = browser.run("return getComputedStyle(document.body).backgroundColor");
        let red = colour.as_str().unwrap().trim_start_matches("rgb(").split(',').next().unwrap().to_owned();
        assert_eq!(red.parse::<u8>().unwrap() < 128, is_dark, "{colour}");
        browser.click("#subscribers a[href='#10.1.0.4']");
        browser
            .wait_for("its flow is there", "document.querySelector('#flows').innerText.includes('10.2.0.2')");
        browser.wait_for("a curve is there", "Number(document.querySelector('#charts').dataset.points) > 20");
        browser.assert_fits();
        browser.picture(&format!("subscriber-{name}"));
        assert_quiet(&browser);
    }
    site.end();
}

#[test]
#[ignore = "needs Chromium: make chromium"]
fn an_ab_phase_is_drawn() {
    let site = Site::open("ab");
    // Seed 3 has passed ones and accelerated ones among these four.
    let group = engine::ControlGroup { seed: 3 };
    let passed: Vec<u8> = (2..=5).filter(|last| group.contains([10, 1, 0, *last].into())).collect();
    assert!(!passed.is_empty() && passed.len() < 4, "{passed:?}");
    printed(&site.network, &["ab", "start", &site.network.name, "--for", "1 h", "--seed", "3"]);
    // New flows of all of them.
    let traffic = Traffic::start(&site.network, &[2, 3, 4, 5]);
    pause(Duration::from_secs(4));
    drop(traffic);
    for size in [DESK, PHONE] {
        let browser = site.browse(size, false);
        browser.wait_for(
            "it is under way",
            "document.querySelector('#compare').innerText.includes('A/B phase under way')",
        );
        browser.wait_for(
            "both groups have a throughput",
            "document.querySelectorAll('[data-metric=goodput] circle').length === 2",
        );
        browser.wait_for("who is passed is marked", &format!(
            "[...document.querySelectorAll('#subscribers tbody tr')].filter((row) => row.lastChild.textContent === 'passed').length === {}",
            passed.len()
        ));
        browser.run("document.querySelector('#compare-title').scrollIntoView()");
        browser.assert_fits();
        browser.picture(&format!("compare-{}", size.0));
        assert_quiet(&browser);
    }
    let report = printed(&site.network, &["ab", "stop", &site.network.name]);
    assert!(report.contains("goodput"), "{report}");
    site.end();
}

#[test]
#[ignore = "needs Chromium: make chromium"]
fn an_ab_phase_of_many_subscribers_shows_how_they_lie() {
    let network = Network::build("spread");
    let clients: Vec<u8> = (2..34).collect();
    add_clients(&network, clients.len() as u8 - 1);
    let accelerator = network.accelerate(&["--shards", "2", "--no-bypass", "--recover-within", "0 ms"]);
    narrow_each(&network, &clients);
    printed(&network, &["ab", "start", &network.name, "--for", "1 h", "--seed", "3"]);
    let traffic = Traffic::start(&network, &clients);
    pause(Duration::from_secs(10));
    drop(traffic);
    // Each subscriber has ended its download, and counts.
    let status = || -> serde_json::Value {
        serde_json::from_str(&printed(&network, &["ab", "status", &network.name, "--json"])).unwrap()
    };
    let subscribers = |report: &serde_json::Value| -> u64 {
        ["control", "accelerated"].iter().map(|group| report[group][0]["subscribers"].as_u64().unwrap()).sum()
    };
    let give_up = Clock::now() + Duration::from_secs(60);
    while subscribers(&status()) < clients.len() as u64 {
        assert!(Clock::now() < give_up, "{}", status());
        pause(Duration::from_millis(300));
    }
    let report = status();
    let metrics = report["metrics"].as_array().unwrap();
    let queueing = metrics.iter().find(|metric| metric["name"] == "queueing-delay").unwrap();
    let middle = |group: &str| {
        let values = queueing[group].as_array().unwrap();
        assert!(values.len() >= 10, "{queueing}");
        values[values.len() / 2].as_f64().unwrap()
    };
    // Those who are passed fill their queues; the controller does not.
    assert!(middle("accelerated_quantiles") * 2.0 < middle("control_quantiles"), "{queueing}");

    let dashboard = Running::start(&network.middle, &["dashboard", &network.name, "--listen", "127.0.0.1:0"]);
    let line = dashboard.wait_for("dashboard at ");
    let address = line.trim_start_matches("dashboard at ");
    for (name, size, is_dark) in
        [("1280", DESK, false), ("1280-dark", DESK, true), ("360", PHONE, false), ("360-dark", PHONE, true)]
    {
        let browser = Browser::start(&network.middle, size, is_dark);
        browser.open(address);
        browser.wait_for(
            "both groups have a curve of all four",
            "document.querySelectorAll('#compare .curves polyline.slow').length === 4 && \
             document.querySelectorAll('#compare .curves polyline.fast').length === 4",
        );
        let row = "[data-metric=queueing-delay]";
        let judged = browser.run(&format!("return document.querySelector('{row}').dataset.verdict"));
        assert_eq!(judged, "yes", "{}", browser.text(row));
        let words = browser.text(row);
        assert!(words.contains("Half of the subscribers have at most: "), "{words}");
        assert!(words.contains("The worst tenth has at least: "), "{words}");
        let headline = browser.text("#compare .headline");
        let begins_with_gain = headline.starts_with(|first: char| first.is_ascii_digit());
        assert!(begins_with_gain && headline.contains("less in queues"), "{headline}");
        assert!(headline.ends_with(" for accelerated subscribers."), "{headline}");
        // The curve of those who wait less rises further left, where it is at half of them.
        let at_half = |who: &str| {
            let script = format!(
                "const points = document.querySelector('{row} .curves .{who}').getAttribute('points').split(' '); \
                 return Number(points[Math.floor(points.length / 2)].split(',')[0])"
            );
            browser.run(&script).as_f64().unwrap()
        };
        assert!(at_half("fast") < at_half("slow"), "{} {}", at_half("fast"), at_half("slow"));
        browser.run("document.querySelector('#compare-title').scrollIntoView()");
        browser.assert_fits();
        browser.picture(&format!("spread-{name}"));
        assert_quiet(&browser);
    }
    drop(dashboard);
    accelerator.stop();
}

#[test]
#[ignore = "needs Chromium: make chromium"]
fn from_another_machine_there_is_a_token_over_tls() {
    let network = Network::build("token");
    let accelerator = network.accelerate(&["--no-bypass", "--recover-within", "0 ms"]);
    let traffic = Traffic::start(&network, &[2]);
    let token = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    std::fs::write(&token, TOKEN).unwrap();
    close(&token);
    let (certificate, key) = (file("box.pem"), file("box.key"));
    let token_file = token.to_str().unwrap();
    let dashboard = Running::start(
        &network.middle,
        &[
            "dashboard",
            &network.name,
            "--listen",
            "10.2.0.1:0",
            "--certificate",
            &certificate,
            "--key",
            &key,
            "--token-file",
            token_file,
        ],
    );
    let line = dashboard.wait_for("dashboard at https://");
    let address = line.trim_start_matches("dashboard at ");
    raise_loopback(&network.server);
    let browser = Browser::start(&network.server, PHONE, false);
    browser.open(address);
    assert!(browser.text("body").contains("for those who know the token"), "{}", browser.text("body"));
    browser.assert_fits();
    browser.picture("login-360");
    browser.type_into("#token", "another token, as long");
    browser.click("button");
    browser.wait_for("it is refused", "document.body.innerText.includes('The token is refused')");
    browser.picture("refused-360");
    browser.type_into("#token", TOKEN);
    browser.click("button");
    browser
        .wait_for("rates are there", "document.querySelector('.tile .value')?.innerText.includes('Mbit/s')");
    // The token is nowhere: neither in the address, nor in what the page or its scripts can read.
    let seen =
        browser.run("return [location.href, document.cookie, document.documentElement.outerHTML].join()");
    assert!(
        !seen.as_str().unwrap().contains(TOKEN) && !seen.as_str().unwrap().contains("Host-cell"),
        "{seen}"
    );
    let cookies = browser.cookies();
    let cookie = &cookies[0];
    assert_eq!(
        (&cookie["httpOnly"], &cookie["secure"], &cookie["sameSite"]),
        (&true.into(), &true.into(), &"Strict".into())
    );
    browser.wait_for("one can go", "!document.querySelector('#leave').hidden");
    browser.click("#leave button");
    browser.wait_for("the token is asked for again", "document.querySelector('#token')");
    let refused = browser.run("return fetch('events').then((answer) => answer.status)");
    assert_eq!(refused, 401);
    // What the browser says of answers with 401 is no complaint about the page, nor is its advice on forms.
    let messages = browser.messages();
    let is_expected = |message: &String| message.contains("401") || message.contains("[DOM]");
    assert!(messages.iter().all(is_expected), "{messages:?}");
    drop((browser, dashboard, traffic));
    accelerator.stop();
}

#[test]
fn without_a_token_it_does_not_listen_beyond_this_machine() {
    let output = Command::new(PROGRAM).args(["dashboard", "--listen", "0.0.0.0:0"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("--certificate, --key and --token-file"), "{said}");
}
