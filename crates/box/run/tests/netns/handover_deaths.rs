//! Boxes that die, or are replaced, while a client moves between them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use handover::{Freeze, Name};
use io::Clock;
use run::{Answer, Config};
use units::Duration;

use crate::handover::{Sites, counter, hand_over, pause, receive, send};
use crate::topology::{Connection, Program, SIGKILL, pattern};

/// Has the transfers end, also where a check fails.
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Packets go on to come to a box that the client has left, which is replaced: they are sent on as before.
#[test]
fn h34_stragglers_are_sent_on_after_an_upgrade() {
    let sites = Sites::build("stragglers");
    let [a, b] = sites.configs();
    let named = |name: &str, replace: Option<&str>| Config {
        name: name.to_owned(),
        replace: replace.map(str::to_owned),
        ..a.clone()
    };
    let [old, b] = sites.start_with([named("old", None), b]);
    let mut talk = sites.connect();
    talk.exchange(b"opening.");
    let Connection { client, server, .. } = sites.connect();
    let data = pattern(500_000);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (data, is_over) = (&data[..], &is_over);
        let over = Over(is_over);
        let sent = scope.spawn(move || send(server, data, is_over));
        let got = scope.spawn(move || receive(client, data));
        pause(200);
        let answer = hand_over(&sites.a, "b");
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
        // Routing does not follow: all its packets are stragglers.
        talk.exchange(b"straggle");
        let mut new =
            Program::launch_with(&sites.a, &named("new", Some("old")), &["--both-ways", "--engine"]);
        new.await_line("the replaced one has ended");
        assert!(old.wait().0.success());
        talk.exchange(b"once mor");
        pause(300);
        drop(over);
        assert_eq!(got.join().unwrap(), sent.join().unwrap() * data.len());
        new.stop(&sites.a);
    });
    assert_eq!(counter(&sites.b, "handover_broken"), 0);
    b.stop(&sites.b);
}

/// Nobody knows whether box b has a subscriber, since box a has been started anew and box b is not there: until that is
/// known box a is not replaced. It goes on to ask, and the subscriber's other flows go on.
#[test]
fn h34_a_box_is_not_replaced_while_nobody_knows_who_has_a_subscriber() {
    let sites = Sites::build("undecided");
    let [a, _] = sites.configs();
    let namespace = sites.a.middle.cookie().unwrap();
    let notes = sites.a.state.join(format!("handover-{namespace}-old"));
    std::fs::create_dir_all(&notes).unwrap();
    let name = Name { subscriber: "10.9.0.77".parse().unwrap(), epoch: 1, nonce: 1 };
    let broken_at = Clock::now() + Duration::from_secs(600);
    let note = Freeze { name, to: 0, broken_at }.note(Vec::new());
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let mut bytes = format!("{{\"boot\":\"{}\",\"peers\":[\"b\"]}}\n", boot.trim()).into_bytes();
    bytes.extend_from_slice(&note.encode());
    std::fs::write(notes.join("10.9.0.77"), bytes).unwrap();
    let config = Config { name: "old".to_owned(), ..a };
    let program = Program::start_both_ways_with(&sites.a, &config);
    let mut connection = sites.connect();
    connection.exchange(b"opening.");
    let replacing = Config { name: "new".to_owned(), replace: Some("old".to_owned()), ..config };
    let new = Program::launch_with(&sites.a, &replacing, &["--both-ways", "--engine"]);
    let (status, said) = new.wait();
    assert!(!status.success() && said.contains("on its way to or from another box"), "{said}");
    connection.exchange(b"goes on-");
    assert_eq!(counter(&sites.a, "handover_under_way"), 1);
    program.signal(SIGKILL);
    program.wait();
}
