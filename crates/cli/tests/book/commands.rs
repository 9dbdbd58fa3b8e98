//! What the start pages and the page on reports tell people to type is typed.
//!
//! Each page is one shell session: its blocks of shell in their order, in a network namespace with two interfaces, and
//! with folders of its own in place of those in which accelerators keep what they have. What is exchanged, and what is
//! not run, is listed here.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use io::SpawnOptions;
use tempfile::TempDir;

use crate::book::root;
use crate::network::{Network, PROGRAM};

/// Words that are exchanged: the test's interfaces, and times that nobody wants to wait for.
const EXCHANGED: [(&str, &str); 5] =
    [("eth0", "w0"), ("eth1", "m0"), ("wg0", "m0"), ("'20 s'", "'3 s'"), ("'5 min'", "'3 s'")];

/// Lines that are not run: page, how they begin, and why.
const NOT_RUN: [(&str, &str, &str); 2] = [
    ("report.md", "cellerator report --since 3h", "the test has no history of three hours ago"),
    (
        "report.md",
        "cellerator report --since 1h --pdf",
        "a browser may be missing; the test `reports` prints",
    ),
];

/// The lines of a page's blocks of shell, without comments.
fn lines(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let mut is_shell = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            is_shell = !is_shell && kind == "sh";
        } else if is_shell {
            let line = line.split(" #").next().unwrap_or_default().trim();
            lines.extend((!line.is_empty()).then(|| line.to_owned()));
        }
    }
    assert!(lines.len() > 3, "{page} has no commands");
    lines
}

/// A page's session. What runs until it is stopped runs beside the rest.
fn script(page: &str) -> String {
    let mut script = "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
    for (number, line) in lines(page).into_iter().enumerate() {
        if NOT_RUN.iter().any(|(own, begin, _)| *own == page && line.starts_with(begin)) {
            continue;
        }
        let line = EXCHANGED.iter().fold(line, |line, (from, to)| line.replace(from, to));
        // So long until a line of it has come.
        let wait = |word: &str| format!("until grep -q '{word}' {number}.out; do sleep 0.1; done\n");
        script += &format!("echo '+ {}' >&2\n", line.replace('\'', "\""));
        script += &match line.as_str() {
            line if line.starts_with("cellerator run ") && !line.contains("--dry-run") => {
                // A page on reports expects one that runs.
                format!("{line} >{number}.out 2>&1 &\n{}", wait("ready:"))
            }
            line if line.starts_with("cellerator history ") => {
                let begun = wait("recording");
                // Slices of a second; the session waits for one.
                format!(
                    "{line} --every '1 s' >{number}.out 2>&1 &\n{begun}until ls /var/lib/cellerator/*.jsonl >/dev/null \
                     2>&1; do sleep 0.1; done\n"
                )
            }
            line => format!("{line}\n"),
        };
    }
    script
}

/// A folder for the session, with what pages name of the repository.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for link in ["scenarios", "crates", "experiments"] {
        std::os::unix::fs::symlink(root().join(link), folder.path().join(link)).unwrap();
    }
    folder
}

/// Runs a session; gives its output.
fn run(network: &Network, script: &str, folder: &Path) -> String {
    let program = Path::new(PROGRAM).parent().unwrap().display();
    let path = format!("{program}:{}", std::env::var("PATH").unwrap());
    // Folders of its own: other accelerators of this machine are not to be seen.
    let whole = format!(
        "for folder in /run/cellerator /var/lib/cellerator; do mkdir -p $folder; mount -t tmpfs none $folder; done\n\
         cd {}\n{script}",
        folder.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", &whole]).env("PATH", path).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let options = SpawnOptions { death_signal: Some(9), ..SpawnOptions::default() };
    let output = network.middle.spawn(command, options).unwrap().wait_with_output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let kept = || {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let said = files.filter(|path| path.extension() == Some("out".as_ref()));
        said.map(|path| fs::read_to_string(path).unwrap()).collect::<String>()
    };
    assert!(output.status.success(), "{}: {text}\n{}", output.status, kept());
    text
}

/// Ends the downloads, also where a session has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a page while a client downloads.
fn run_page(page: &str, before: &str) -> (String, TempDir) {
    let network = Network::build("book");
    let folder = folder();
    let is_over = AtomicBool::new(false);
    let text = thread::scope(|scope| {
        let downloads = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                network.download(2_000_000);
                count += 1;
                thread::park_timeout(std::time::Duration::from_millis(50));
            }
            count
        });
        let over = Over(&is_over);
        let text = run(&network, &(before.to_owned() + &script(page)), folder.path());
        drop(over);
        assert!(downloads.join().unwrap() > 0, "the network works before and after");
        text
    });
    (text, folder)
}

#[test]
fn an_operator_gets_to_a_first_report() {
    let (text, folder) = run_page("start-operator.md", "");
    assert!(text.contains("flows were accelerated"), "{text}");
    assert!(
        fs::read_to_string(folder.path().join("report.html"))
            .unwrap()
            .contains("What these figures do not say")
    );
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("report.json")).unwrap()).unwrap();
    assert!(json["totals"]["flows_accelerated"].as_u64().unwrap() > 0, "{json}");
    assert!(json["totals"]["downlink_bytes"].as_u64().unwrap() >= 2_000_000, "{json}");
    assert!(folder.path().join("hour.html").exists());
}

#[test]
fn a_vps_owner_gets_to_a_first_report() {
    let (text, folder) = run_page("start-vps.md", "");
    assert!(text.contains("flows were accelerated") && text.contains("drained and ended"), "{text}");
    assert!(folder.path().join("report.html").exists());
}

#[test]
fn the_page_on_reports_does_what_it_says() {
    let run = "cellerator run --wired w0 --mobile m0 >run.out 2>&1 &\n\
               until grep -q ready: run.out; do sleep 0.1; done\n\
               cellerator report --during '3 s' --json before.json\n";
    let (text, folder) = run_page("report.md", run);
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    let says = ["no difference shown", "faster", "slower", "too few flows"];
    assert!(page.contains("Mann-Whitney") && says.iter().any(|one| page.contains(one)), "{text}");
}

#[test]
fn a_researcher_gets_to_a_first_figure() {
    let network = Network::build("research");
    let folder = folder();
    run(&network, &script("start-researcher.md"), folder.path());
    for page in ["drive/report.html", "contest.html", "page.html", "flows.html"] {
        assert!(fs::metadata(folder.path().join(page)).unwrap().len() > 1_000, "{page}");
    }
}
