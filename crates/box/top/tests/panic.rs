//! A view that panics in a real terminal, tmux's: the terminal is left as it was found, with the message.

use std::process::Command;
use std::time::Duration;

use io::Clock;
use top::{Ask, Live, Reply, Source, TopError};

/// Answers the first questions, and panics at a later one.
struct Failing(u32);

impl Source for Failing {
    fn ask(&mut self, question: &Ask) -> Result<Reply, TopError> {
        self.0 += 1;
        assert!(self.0 < 12, "this source fails");
        Ok(match question {
            Ask::Names => Reply::Names(vec!["radio".to_owned()]),
            _ => Reply::Refused("nothing to see".to_owned()),
        })
    }
}

#[test]
#[ignore = "is run by the test below, in a terminal: make top-test"]
fn failing_view() {
    let interval = units::Duration::from_millis(100);
    let settings = Live { place: "a test".to_owned(), interval, has_colour: true, name: None };
    let ended = top::live(Failing(0), &settings);
    println!("ended: {}", ended.unwrap_err());
}

struct Tmux(String);

impl Tmux {
    fn run(&self, words: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.0]).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn wait_for(&self, text: &str) -> String {
        let give_up = Clock::now() + units::Duration::from_secs(30);
        loop {
            let screen = self.run(&["capture-pane", "-p"]);
            if screen.contains(text) {
                return screen;
            }
            assert!(Clock::now() < give_up, "never '{text}':\n{screen}");
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        drop(Command::new("tmux").args(["-L", &self.0, "kill-server"]).output());
    }
}

#[test]
#[ignore = "needs tmux: make top-test"]
fn a_panic_leaves_the_terminal_as_it_was() {
    let tmux = Tmux(format!("ct-top-panic-{}", std::process::id()));
    tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env", "PS1=shell> ", "sh"]);
    tmux.wait_for("shell>");
    let own = std::env::current_exe().unwrap();
    let start = format!("{} --ignored --exact panic::failing_view --nocapture", own.display());
    tmux.run(&["send-keys", &start, "Enter"]);
    let screen = tmux.wait_for("ended: the view has failed");
    assert!(screen.contains("this source fails"), "the message is seen:\n{screen}");
    assert_eq!(tmux.run(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1");
    tmux.run(&["send-keys", "clear; stty -a | tr ';' '\\n' | grep -ow -e '-*echo' -e '-*icanon'", "Enter"]);
    let screen = tmux.wait_for("\necho\n");
    assert!(screen.lines().any(|line| line == "icanon"), "{screen}");
}
