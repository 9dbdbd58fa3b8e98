//! The view in tmux: a terminal as people have it.

use std::process::{Command, Output};

use io::{Clock, SpawnOptions};

use crate::network::{Network, PATIENCE, PROGRAM, wait_until};
use crate::traffic::{Traffic, add_clients};

/// A server of tmux of its own, with one terminal of 80 × 24 in which a shell runs.
struct Tmux<'a> {
    network: &'a Network,
    socket: String,
}

impl<'a> Tmux<'a> {
    fn start(network: &'a Network) -> Self {
        let socket = format!("{}-tmux", network.name);
        let this = Self { network, socket };
        let new =
            ["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env", "PS1=shell> ", "sh"];
        assert!(this.tmux(&new).status.success());
        this.wait_for("the shell is there", |screen| screen.contains("shell>"));
        this
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(words);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        self.network.middle.spawn(command, SpawnOptions::default()).unwrap().wait_with_output().unwrap()
    }

    fn keys(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()).status.success());
    }

    fn screen(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// A value of the terminal's, as tmux knows it.
    fn asks(&self, what: &str) -> String {
        let answer = self.tmux(&["display-message", "-p", what]).stdout;
        String::from_utf8(answer).unwrap().trim().to_owned()
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let give_up = Clock::now() + units::Duration::from_secs(PATIENCE.as_secs());
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(Clock::now() < give_up, "it never came about that {what}:\n{screen}");
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
    }

    /// The terminal is the shell's again, as it was: not the other screen, with a cursor, with echo.
    fn is_restored(&self) {
        self.wait_for("the shell is back", |screen| {
            screen.contains("shell>") && !screen.contains("subscribers")
        });
        assert_eq!(self.asks("#{alternate_on} #{cursor_flag}"), "0 1");
        self.keys(&["clear; stty -a | tr ';' '\\n' | grep -ow -e '-*echo' -e '-*icanon'", "Enter"]);
        let screen = self.wait_for("stty has spoken", |screen| screen.lines().any(|line| line == "echo"));
        assert!(screen.lines().any(|line| line == "icanon"), "{screen}");
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        drop(self.tmux(&["kill-server"]));
    }
}

/// Processes of `cellerator top` that show the accelerator `name`.
fn views(name: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let words = processes.filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
    words
        .filter(|words| words.starts_with(PROGRAM) && words.contains("\0top\0") && words.contains(name))
        .count()
}

#[test]
#[ignore = "needs tmux: make top-test"]
fn a_terminal_shows_subscribers_and_is_left_as_it_was() {
    let network = Network::build("tmux");
    add_clients(&network, 1);
    let accelerator = network.accelerate(&["--shards", "2"]);
    let traffic = Traffic::start(&network, &[2, 2, 3]);
    let tmux = Tmux::start(&network);
    let start = format!("{PROGRAM} top --interval '200 ms' {}", network.name);
    tmux.keys(&[&start, "Enter"]);
    let screen = tmux.wait_for("both subscribers have rates", |screen| {
        let has_rate =
            |address: &str| screen.lines().any(|line| line.contains(address) && line.contains("Mbit/s"));
        screen.contains("2 subscribers") && has_rate("10.1.0.2 ") && has_rate("10.1.0.3 ")
    });
    eprintln!("{screen}");
    assert_eq!(tmux.asks("#{alternate_on}"), "1");
    // By address, the first one, opened.
    tmux.keys(&["1", "Home", "Enter"]);
    let screen = tmux.wait_for("its flows and a curve are there", |screen| {
        screen.contains("2 flows, server") && screen.contains("-60 s") && screen.contains("accelerated")
    });
    eprintln!("{screen}");
    assert!(screen.contains("10.1.0.2") && !screen.contains("10.1.0.3"), "{screen}");
    // A terminal of another size is filled at once.
    assert!(tmux.tmux(&["resize-window", "-x", "110", "-y", "36"]).status.success());
    tmux.wait_for("the last line is the window's last one", |screen| {
        screen.lines().count() == 36 && screen.lines().last().is_some_and(|line| line.ends_with("q quit"))
    });
    assert!(tmux.tmux(&["resize-window", "-x", "80", "-y", "24"]).status.success());
    tmux.wait_for("it is as it was", |screen| {
        screen.lines().count() == 24 && screen.lines().last().is_some_and(|line| line.ends_with("q quit"))
    });
    tmux.keys(&["Escape"]);
    tmux.wait_for("the list is back", |screen| screen.contains("10.1.0.3"));
    tmux.keys(&["/", "0.3", "Enter"]);
    tmux.wait_for("the filter holds", |screen| !screen.contains("10.1.0.2 ") && screen.contains("10.1.0.3"));
    // However it ends.
    tmux.keys(&["q"]);
    tmux.is_restored();
    let coloured = |screen: &str| screen.contains("38;5;");
    tmux.keys(&[&format!("NO_COLOR=1 {start}"), "Enter"]);
    tmux.wait_for("it is there without colours", |screen| screen.contains("2 subscribers"));
    let plain = String::from_utf8(tmux.tmux(&["capture-pane", "-p", "-e"]).stdout).unwrap();
    assert!(!coloured(&plain), "{plain:?}");
    tmux.keys(&["q"]);
    tmux.is_restored();
    tmux.keys(&[&start, "Enter"]);
    tmux.wait_for("it is there again", |screen| screen.contains("2 subscribers"));
    let screen = String::from_utf8(tmux.tmux(&["capture-pane", "-p", "-e"]).stdout).unwrap();
    assert!(coloured(&screen), "{screen:?}");
    tmux.keys(&["C-c"]);
    tmux.is_restored();
    tmux.keys(&[&format!("{start} & sleep 2; kill $!; wait; fg"), "Enter"]);
    tmux.is_restored();
    // A terminal that goes away takes the view with it, also one that ignores being told.
    tmux.keys(&[&format!("trap '' HUP; {start}"), "Enter"]);
    tmux.wait_for("it is there once more", |screen| screen.contains("2 subscribers"));
    assert_eq!(views(&network.name), 1);
    drop(tmux);
    wait_until("the view has ended", || views(&network.name) == 0);
    drop(traffic);
    accelerator.stop();
}
