//! Examples at the end of the help of each subcommand: calls for common ends.

use clap::Command;

/// Of each subcommand, by its path: what an example is for, and the example without `cellerator` in front.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "run",
        &[
            ("Accelerate what this router forwards", "run --wired eth0 --mobile eth1"),
            ("Be a bridge between two interfaces", "run --inline eth0 eth1"),
            ("See what would be set up", "run --wired eth0 --mobile eth1 --dry-run"),
            ("Take the place of a running one", "run --config box.toml --replace eth0-eth1"),
        ],
    ),
    (
        "status",
        &[
            ("The only one that runs", "status"),
            ("With rates, every two seconds", "status --watch --interval '2 s'"),
            ("One of several, for a program", "status box --json"),
        ],
    ),
    ("flows", &[("The only one that runs", "flows"), ("For a program", "flows --json")]),
    (
        "handover",
        &[
            ("A subscriber goes to the box that is called north", "handover 10.45.0.2 --to north"),
            (
                "The same, as a base station orders it",
                "handover 10.45.0.2 --to north --order 192.0.2.1:7310 --key-file key",
            ),
        ],
    ),
    ("drain", &[("Hand the flows back within a minute", "drain --time '60 s'")]),
    (
        "events",
        &[
            ("What happens to the only one that runs", "events"),
            ("Flows and outages too, for a program", "events --flows --json"),
        ],
    ),
    ("export", &[("Records of ended flows", "export flows")]),
    (
        "export flows",
        &[
            ("Into a file", "export flows --json flows.jsonl"),
            ("To a collector", "export flows --ipfix collector.example.net:4739"),
        ],
    ),
    ("ab", &[("Half an hour", "ab start --for '30 min'"), ("What it shows", "ab status")]),
    (
        "ab start",
        &[
            ("Half an hour", "ab start --for '30 min'"),
            ("The same half of the subscribers as the last time", "ab start --for '60 min' --seed 7"),
        ],
    ),
    ("ab status", &[("What it has shown so far", "ab status"), ("For a program", "ab status --json")]),
    ("ab stop", &[("End it now, and show what it has shown", "ab stop")]),
    (
        "dashboard",
        &[
            ("All accelerators that run here", "dashboard"),
            (
                "For browsers elsewhere, that know the token",
                "dashboard --listen 192.0.2.7:9470 --certificate box.pem --key box.key --token-file token",
            ),
        ],
    ),
    (
        "metrics",
        &[
            ("All accelerators that run here, for a Prometheus on this machine", "metrics"),
            ("One of them, for another machine", "metrics box --listen 192.0.2.7:9469"),
        ],
    ),
    (
        "top",
        &[
            ("What runs on this machine", "top"),
            ("A table, or JSON, and no screen", "top --once"),
            (
                "Let another machine look",
                "top --serve 192.0.2.7:9471 --certificate box.pem --key box.key --token-file token",
            ),
            (
                "Look from there",
                "top --connect box.example.net:9471 --certificate box.pem --token-file token",
            ),
        ],
    ),
    (
        "history",
        &[
            ("A week of one accelerator", "history eth0-eth1"),
            ("A day, elsewhere", "history box --keep 1d --directory /srv/history"),
        ],
    ),
    (
        "report",
        &[
            ("The last hour", "report --since 1h --html report.html --pdf report.pdf"),
            ("The next five minutes, without a history", "report --during '5 min'"),
            ("The hour before a change", "report --since 3h --until 2h --json before.json"),
            ("An hour after it, beside that", "report --since 1h --before before.json --html report.html"),
        ],
    ),
    ("drwa", &[("All connections over a modem", "drwa attach wwan0")]),
    (
        "drwa attach",
        &[
            ("All connections over a modem", "drwa attach wwan0"),
            ("Only web traffic", "drwa attach wlan0 --only :443 --only :80"),
            ("As in the paper", "drwa attach wwan0 --paper"),
        ],
    ),
    ("drwa detach", &[("The one that runs here", "drwa detach")]),
    ("drwa status", &[("All that is attached", "drwa status"), ("For a program", "drwa status --json")]),
    ("congestion", &[("At a server, until Ctrl-C: all new connections", "congestion load")]),
    (
        "congestion load",
        &[
            ("All new connections of this network namespace", "congestion load"),
            ("A web server's", "congestion load --port 443"),
            ("Those of a service", "congestion load --cgroup /sys/fs/cgroup/system.slice/nginx.service"),
            ("Those that ask for it by TCP_CONGESTION", "congestion load --register-only"),
        ],
    ),
    (
        "congestion compare",
        &[
            ("An hour beside what the kernel has", "congestion compare --for '1 h'"),
            (
                "A web server's connections, beside BBR, until Ctrl-C",
                "congestion compare --with bbr --port 443",
            ),
            ("With few clients, for a program", "congestion compare --by connection --for '1 h' --json"),
        ],
    ),
    (
        "congestion install",
        &[
            ("From now on and after every boot: a web server's connections", "congestion install --port 443"),
            ("No longer", "congestion install --remove"),
        ],
    ),
    ("congestion unload", &[("What is loaded", "congestion unload")]),
    (
        "congestion status",
        &[("Connections that use it", "congestion status"), ("For a program", "congestion status --json")],
    ),
    ("reload", &[("Read the settings file anew", "reload")]),
    ("multipath", &[("Every uplink of this host", "multipath run --server probe.example.net")]),
    (
        "multipath run",
        &[
            ("Every uplink of this host (as root)", "multipath run --server probe.example.net"),
            (
                "Two of them, full mesh, with recording",
                "multipath run wwan0 wlan0 --server HOST --full-mesh --record seen.txt",
            ),
            ("Without a probe server", "multipath run --ping 192.0.2.1"),
            ("Uploads that share a bottleneck", "multipath run --server HOST --congestion balia"),
            (
                "Keep-alives of MPTCP subflows only, before a carrier's 60 s",
                "multipath run --server HOST --per-subflow --keep-alive '50 s'",
            ),
        ],
    ),
    (
        "multipath status",
        &[("A live table", "multipath status --watch"), ("For a program", "multipath status --json")],
    ),
    (
        "multipath congestion",
        &[("At a server: its MPTCP subflows are coupled until Ctrl-C", "multipath congestion load balia")],
    ),
    (
        "multipath congestion load",
        &[
            ("MPTCP subflows of this network namespace", "multipath congestion load balia"),
            (
                "For programs that ask for it by TCP_CONGESTION",
                "multipath congestion load lia --register-only",
            ),
        ],
    ),
    ("multipath congestion unload", &[("Whatever is loaded", "multipath congestion unload")]),
    (
        "multipath congestion status",
        &[
            ("Windows of every connection that uses it", "multipath congestion status"),
            ("For a program", "multipath congestion status --json"),
        ],
    ),
    ("multipath paths", &[("Drain an uplink before it is unplugged", "multipath paths --retire wwan0")]),
    (
        "multipath simulate",
        &[
            ("A written or recorded event file", "multipath simulate scenarios/multipath/silent-death.txt"),
            ("The rules of the machine", "multipath simulate --rules diagram"),
        ],
    ),
    ("probe", &[("Against a host on which `cellerator probe server` runs", "probe sweep probe.example.net")]),
    (
        "probe server",
        &[
            ("For anyone, with the default limits", "probe server"),
            ("For who has the key", "probe server --key-file probe.key --rate-max '200 Mbit/s'"),
            ("With TCP ports for `probe middlebox`", "probe server --ports 20,21,22,80,110,443,5201"),
        ],
    ),
    (
        "probe all",
        &[
            ("Everything in some minutes, with a report", "probe all probe.example.net --html all.html"),
            (
                "Without the time-outs, and beside a server on the local network",
                "probe all HOST --parts rtt,sweep,tcp,hops --local-peer 192.168.1.2",
            ),
        ],
    ),
    (
        "probe sweep",
        &[
            ("Capacity and shares of it, with a report", "probe sweep probe.example.net --html sweep.html"),
            (
                "Rates of [MA] Table 1",
                "probe sweep 192.0.2.1 --ways down --rates '0.8 Mbit/s,1.6 Mbit/s,2.4 Mbit/s,3.2 Mbit/s,4 Mbit/s'",
            ),
        ],
    ),
    (
        "probe rtt",
        &[
            ("Idle and under load, with a report", "probe rtt probe.example.net --html rtt.html"),
            ("Idle only, for a program", "probe rtt probe.example.net --idle --time '30 s' --json -"),
        ],
    ),
    (
        "probe tcp",
        &[
            ("Six transfers each way, with a report", "probe tcp probe.example.net --html tcp.html"),
            (
                "Two windows with two congestion controls, down",
                "probe tcp probe.example.net --ways down --window '100 KB,1 MB' --cc cubic,bbr",
            ),
        ],
    ),
    (
        "probe middlebox",
        &[
            ("All tests, with a report (as root)", "probe middlebox probe.example.net --html middlebox.html"),
            (
                "Is the path split at port 80, on a path of up to a second?",
                "probe middlebox HOST --ports 80 --tests split --delay '2 s'",
            ),
            ("What can be learned without root", "probe middlebox HOST --tests requests,refused --json -"),
        ],
    ),
    (
        "probe timeout",
        &[
            ("From 30 s to two hours, in two hours", "probe timeout probe.example.net --json timeout.json"),
            (
                "Go on with what was interrupted",
                "probe timeout probe.example.net --resume timeout.json --json whole.json",
            ),
            (
                "Up to five minutes, UDP only",
                "probe timeout HOST --protocols udp --silences '30s,60s,120s,300s'",
            ),
        ],
    ),
    (
        "probe hops",
        &[
            ("Idle and under load, with a report", "probe hops probe.example.net --html hops.html"),
            ("Up only, with a load of its own", "probe hops probe.example.net --ways up --load '20 Mbit/s'"),
        ],
    ),
    (
        "probe record",
        &[
            ("Both ways for a minute", "probe record probe.example.net --out recorded"),
            (
                "Down only; then replay it",
                "probe record probe.example.net --ways down --time '30 s' --out drive",
            ),
            ("What two downloads make of it", "sim run recorded/link.toml"),
        ],
    ),
    (
        "probe compare",
        &[("Environments, with a report", "probe compare wired=a.json moving=b.json --html compare.html")],
    ),
    ("lab", &[("Run a scenario", "lab run scenarios/demo-lte-drive.toml")]),
    (
        "lab up",
        &[
            ("A network to look around in", "lab up --preset 4g-lte-drive"),
            ("Run one command on the client", "lab up scenarios/demo-lte-drive.toml -- ping -c 3 10.1.0.2"),
        ],
    ),
    ("lab exec", &[("In a lab that is up", "lab exec client -- ping -c 3 10.1.0.2")]),
    ("lab shell", &[("On the server of a lab that is up", "lab shell server")]),
    (
        "lab run",
        &[
            ("With a report", "lab run scenarios/demo-lte-drive.toml --html report.html"),
            ("One case, for a program", "lab run scenarios/demo-lte-drive.toml --case accelerated --json -"),
        ],
    ),
    ("lab list", &[("Running labs, and what killed labs left", "lab list")]),
    ("lab clean", &[("After a kill", "lab clean")]),
    (
        "lab moves",
        &[
            ("All cases, as long as the file says", "lab moves experiments/ev/moves.toml"),
            (
                "One case for ten minutes",
                "lab moves experiments/ev/moves.toml --case '20 ms' --time '10 min' --json -",
            ),
        ],
    ),
    ("lab benchmark", &[("As a table", "lab benchmark"), ("For a program", "lab benchmark --json -")]),
    ("sim", &[("Run a scenario", "sim run scenarios/demo-lte-drive.toml")]),
    (
        "sim run",
        &[
            (
                "Five seeds, with a report",
                "sim run scenarios/demo-lte-drive.toml --seeds 5 --html report.html",
            ),
            ("For a program", "sim run scenarios/demo-lte-drive.toml --json -"),
        ],
    ),
    (
        "sim soak",
        &[
            ("For five minutes", "sim soak --minutes 5"),
            ("One seed that failed, packet by packet", "sim soak --seed 17"),
            ("With strangers that forge packets and send them again", "sim soak --strangers --seeds 1000000"),
        ],
    ),
    (
        "sim digest",
        &[
            ("Before a change", "sim digest scenarios/*.toml > before.txt"),
            ("After it", "sim digest scenarios/*.toml --against before.txt"),
        ],
    ),
    (
        "feedback-adapter",
        &[
            (
                "Metrics that a gNB sends by UDP",
                "feedback-adapter srsran --to 127.0.0.1:7310 --input udp:0.0.0.0:55555 --map \
                 0x4601=10.45.0.2",
            ),
            ("A saved document", "feedback-adapter mec-rnis --to 127.0.0.1:7310 --input l2meas.json"),
        ],
    ),
    (
        "demo",
        &[
            ("As root; report.html and captures go to out/demo", "demo"),
            ("Elsewhere", "demo --out /tmp/demo"),
        ],
    ),
    ("model", &[("A picture of CUBIC", "model figure direct:cubic")]),
    (
        "model figure",
        &[(
            "The accelerator on a shallow queue",
            "model figure accel:adaptive --queue '100 KB' --out shallow.svg",
        )],
    ),
    ("model stability", &[("The paper's case, as JSON", "model stability --alpha 0.5,0.3 --json -")]),
    ("trace", &[("What presets there are", "trace presets")]),
    (
        "trace generate",
        &[("A drive of a minute", "trace generate 4g-lte-drive --seconds 60 --output drive.trace")],
    ),
    ("trace presets", &[("One of them", "trace presets 5g-nr")]),
    (
        "trace info",
        &[("For people", "trace info drive.trace"), ("For a program", "trace info drive.trace --json")],
    ),
    ("trace plot", &[("As a picture", "trace plot drive.trace --output drive.svg")]),
    (
        "trace convert",
        &[("From lines of seconds and Mbit/s", "trace convert rates.txt --from rates --output drive.trace")],
    ),
    ("trace replay", &[("How exactly the link model follows a trace", "trace replay drive.trace")]),
    (
        "reproduce",
        &[
            ("List the experiments", "reproduce --list"),
            ("One figure; the page goes to out/reproduction", "reproduce ma-figure-2"),
            ("Everything, resumed after an interruption", "reproduce --all --resume"),
        ],
    ),
    (
        "analyze",
        &[
            ("A table", "analyze capture.pcap"),
            ("A page with graphs", "analyze capture.pcapng --html flows.html"),
            ("Both sides of a box that divides connections", "analyze wired.pcap mobile.pcap"),
            ("For a program", "analyze capture.pcap --json --events"),
        ],
    ),
    ("capture", &[("Ten seconds, then the table", "capture eth0 --seconds 10 --analyze")]),
];

/// Those of subcommands that have other aims than one run.
const MORE: [(&str, &[(&str, &str)]); 9] = [
    (
        "lab multipath",
        &[
            (
                "A radio that dies, with a report",
                "lab multipath scenarios/multipath/silent-death-10.toml --html report.html",
            ),
            (
                "One case, with what the path manager says",
                "lab multipath scenarios/multipath/nat.toml --case daemon --events",
            ),
            (
                "One run again",
                "lab multipath scenarios/multipath/nat.toml --case daemon --run 3 --json again.json",
            ),
            ("Parts put together", "lab multipath --from-json all.json again.json --json whole.json"),
        ],
    ),
    (
        "man",
        &[("Read one (pipe it to `man -l -`)", "man multipath run"), ("All of them", "man --all out/man")],
    ),
    (
        "doctor",
        &[
            ("This machine", "doctor"),
            ("Two interfaces between which to accelerate", "doctor eth0 eth1"),
            ("For a program", "doctor --json"),
        ],
    ),
    (
        "completions",
        &[
            ("In bash, for this session", "completions bash"),
            ("In zsh, from a folder of `fpath`", "completions zsh"),
        ],
    ),
    (
        "contest",
        &[
            ("On a synthetic drive", "contest 4g-lte-drive --html contest.html"),
            ("Two schemes on your own trace", "contest drive.trace --schemes direct:bbr,accel:adaptive"),
        ],
    ),
    (
        "sweep",
        &[
            ("A grid", "sweep grid.toml --out grid.parquet"),
            (
                "The second of four shards, resumed",
                "sweep grid.toml --out part-1.parquet --shard 1/4 --resume",
            ),
        ],
    ),
    ("sweep merge", &[("All shards", "sweep merge part-0.parquet part-1.parquet --out grid.parquet")]),
    ("sweep eliminate", &[("All terms, on two grids", "sweep eliminate lte.toml 5g.toml --json terms.json")]),
    (
        "bench",
        &[
            ("Everything, into a file that keeps what was measured before", "bench --json bench.json"),
            ("Fewer rounds of one part", "bench bulk --pairs 3"),
        ],
    ),
];

fn of(path: &str) -> Option<&'static [(&'static str, &'static str)]> {
    EXAMPLES.iter().chain(&MORE).find(|(name, _)| *name == path).map(|(_, examples)| *examples)
}

/// `command` with examples at the end of the help of each of its subcommands.
pub fn with_examples(command: Command) -> Command {
    add(command, "")
}

fn add(command: Command, path: &str) -> Command {
    let command = match of(path) {
        Some(examples) => command.after_help(text(examples)),
        None => command,
    };
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command.mut_subcommand(name, |sub| add(sub, &path))
    })
}

fn text(examples: &[(&str, &str)]) -> String {
    let lines = examples.iter().map(|(aim, line)| format!("  {aim}:\n    cellerator {line}"));
    format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    /// Every subcommand that is shown, with its path.
    fn shown(command: &Command, path: &str) -> Vec<(String, Command)> {
        let subs = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        subs.flat_map(|sub| {
            let path = format!("{path} {}", sub.get_name()).trim().to_owned();
            let below = shown(sub, &path);
            std::iter::once((path, sub.clone())).chain(below)
        })
        .collect()
    }

    #[test]
    fn every_help_begins_with_what_it_is_for_and_ends_with_examples_that_can_be_run() {
        let all = shown(&Cli::command(), "");
        assert!(all.len() > 30);
        for (path, command) in &all {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.len() > 20, "`{path}` does not say what it is for");
            let help = with_examples(Cli::command())
                .try_get_matches_from(["cellerator"].into_iter().chain(path.split(' ')).chain(["--help"]))
                .unwrap_err()
                .to_string();
            let first_word = about.split(' ').next().unwrap();
            assert!(help.starts_with(first_word), "{path}: {help}");
            assert!(help.contains("Examples:\n"), "`{path}` has no examples");
            for (aim, line) in of(path).unwrap() {
                let words = words_of(line);
                let parsed =
                    Cli::command().try_get_matches_from(["cellerator".to_owned()].into_iter().chain(words));
                assert!(parsed.is_ok(), "{path}, {aim}: {}", parsed.unwrap_err());
            }
        }
        for (path, _) in EXAMPLES.iter().chain(&MORE) {
            assert!(all.iter().any(|(shown, _)| shown == path), "there is no `{path}`");
        }
    }

    /// README.md and the pages below `docs`: names and texts.
    fn documents() -> Vec<(String, String)> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let mut files = vec![std::path::PathBuf::from(root).join("README.md")];
        for folder in ["docs", "docs/algorithms"] {
            let folder = std::fs::read_dir(format!("{root}/{folder}")).unwrap();
            files.extend(folder.map(|entry| entry.unwrap().path()));
        }
        files.retain(|file| file.extension().is_some_and(|end| end == "md"));
        let named =
            |file: std::path::PathBuf| (file.display().to_string(), std::fs::read_to_string(&file).unwrap());
        files.into_iter().map(named).collect()
    }

    /// The calls of `cellerator` in blocks of shell, without comments and what a shell does with them. Lines that
    /// describe a syntax (`[NAME]`, `…`), or have a shell's variables, are left out.
    fn calls(text: &str) -> Vec<String> {
        let mut is_shell = false;
        let joined = text.replace("\\\n", " ");
        let mut found = Vec::new();
        for line in joined.lines() {
            if let Some(kind) = line.trim_start().strip_prefix("```") {
                is_shell = !is_shell && ["sh", "console"].contains(&kind);
                continue;
            }
            let line = line.trim().trim_start_matches("$ ").trim_start_matches("sudo ");
            let Some(call) = line.strip_prefix("cellerator ").filter(|_| is_shell) else { continue };
            let end = [" #", " | ", " > ", " && ", "; ", " &"].iter().filter_map(|end| call.find(end)).min();
            let call = call[..end.unwrap_or(call.len())].trim();
            if !call.contains(['[', '…', '$']) {
                found.push(call.to_owned());
            }
        }
        found
    }

    #[test]
    fn every_call_in_the_documents_is_understood() {
        let mut count = 0;
        for (name, text) in documents() {
            for call in calls(&text) {
                count += 1;
                let words = std::iter::once("cellerator".to_owned()).chain(words_of(&call.replace('"', "'")));
                let parsed = Cli::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{name}: cellerator {call}: {}", parsed.unwrap_err());
            }
        }
        assert!(count > 100, "{count}");
    }

    #[test]
    fn calls_are_found_where_a_shell_is_shown() {
        let text = "cellerator not here\n```sh\nsudo cellerator drain   # why\ncellerator status [NAME]\nls\n\
                    cellerator flows \\\n  --json | jq\n```\n```toml\ncellerator no\n```\n";
        assert_eq!(calls(text), ["drain", "flows    --json"]);
    }

    /// The words of a line as a shell has them: what is quoted is one.
    fn words_of(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        parts
            .flat_map(|(i, part)| match i % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }
}
