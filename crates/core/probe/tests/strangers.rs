//! What a client that does not mean to measure can take from a server: memory, the turn, silent flows.

use std::net::SocketAddr;

use probe::{
    ARRIVALS_MAX, Cookie, CookieJar, Data, Direction, Limits, Message, Pattern, Refusal, RunSpec, Server,
    ServerConfig, SessionId,
};
use units::{Bytes, Duration, Instant, Rate};

/// The limits of `cellerator probe server`.
fn server(arrivals_max: usize) -> Server {
    Server::new(ServerConfig {
        key: None,
        secret: CookieJar::new(b"secret").unwrap(),
        limits: Limits {
            rate_max: Rate::from_mbps(1_000),
            time_max: Duration::from_secs(60),
            volume_max: Bytes::new(8_000_000_000),
        },
        sessions_max: 64,
        sessions_per_client_max: 4,
        measured_max: 1,
        arrivals_max,
    })
}

/// Someone at an address of its own that says what it likes.
struct Talker {
    from: SocketAddr,
    session: SessionId,
}

impl Talker {
    /// Proves its address.
    fn enter(server: &mut Server, host: u8, now: Instant) -> Self {
        let mut talker = Self { from: SocketAddr::from(([192, 0, 2, host], 4_000)), session: 0 };
        let nonce = u64::from(host);
        let said = talker.say(server, &Message::Hello { nonce, cookie: Cookie::default() }, now);
        let Some(Message::Challenge { cookie, .. }) = said.first() else { panic!("{said:?}") };
        let said = talker.say(server, &Message::Hello { nonce, cookie: *cookie }, now);
        let Some(Message::Accept { session, .. }) = said.first() else { panic!("{said:?}") };
        talker.session = *session;
        talker
    }

    /// Says something; what the server says to this address at that time.
    fn say(&self, server: &mut Server, message: &Message, now: Instant) -> Vec<Message> {
        self.say_from(self.from, server, message, now)
    }

    fn say_from(
        &self,
        from: SocketAddr,
        server: &mut Server,
        message: &Message,
        now: Instant,
    ) -> Vec<Message> {
        let mut bytes = Vec::new();
        message.encode(None, &mut bytes);
        server.handle_datagram(&bytes, from, now, now);
        said(server, now).into_iter().filter(|(to, _)| *to == from).map(|(_, message)| message).collect()
    }

    fn ask(&self, server: &mut Server, run: u32, spec: RunSpec, now: Instant) -> Message {
        let said = self.say(server, &Message::Ask { session: self.session, run, spec }, now);
        let is_answer = |message: &Message| {
            matches!(message, Message::Grant { .. } | Message::Wait { .. } | Message::Deny { .. })
        };
        said.into_iter().find(is_answer).expect("an answer")
    }

    fn data(&self, server: &mut Server, run: u32, number: u32, now: Instant) {
        self.say(server, &Message::Data(Data { session: self.session, run, number, sent: now }), now);
    }

    fn keep(&self, server: &mut Server, now: Instant) {
        let (session, report) = (self.session, probe::StatusReport::default());
        let mut bytes = Vec::new();
        Message::Status { session, run: 0, number: 0, report }.encode(None, &mut bytes);
        server.handle_datagram(&bytes, self.from, now, now);
    }
}

/// All that the server has to say at `now`.
fn said(server: &mut Server, now: Instant) -> Vec<(SocketAddr, Message)> {
    let (mut out, mut all) = (Vec::new(), Vec::new());
    while let Some(transmit) = server.poll_transmit(now, &mut out) {
        all.push((transmit.path.client, Message::decode(&out, None).unwrap()));
    }
    all
}

fn spec(pattern: Pattern, direction: Direction, length: Duration) -> RunSpec {
    RunSpec {
        direction,
        pattern,
        rate: Rate::from_mbps(250),
        payload: 44,
        overhead: 28,
        length,
        is_echoed: false,
    }
}

const UP: Direction = Direction::Up;

#[test]
fn what_a_client_announces_takes_no_memory() {
    let begin = Instant::from_millis(1_000);
    let memory = allocation_counter::measure(|| {
        let mut server = server(ARRIVALS_MAX);
        // The longest runs that the limits let in, and of each the last number.
        for host in 0..4 {
            let (talker, mut now) = (Talker::enter(&mut server, host, begin), begin);
            for run in 0..4 {
                let spec = spec(Pattern::Steady, UP, Duration::from_secs(60));
                assert_eq!(
                    talker.ask(&mut server, run, spec, now),
                    Message::Grant { session: talker.session, run }
                );
                let last = u32::try_from(spec.packets() - 1).unwrap();
                talker.data(&mut server, run, last, now);
                // It counts as one that came, and is reported.
                now += Duration::from_millis(200);
                let said = talker.say(&mut server, &Message::Finish { session: talker.session, run }, now);
                let is_summary = |message: &&Message| matches!(message, Message::Summary { summary, .. } if summary.received == 1);
                assert_eq!(said.iter().filter(is_summary).count(), 1, "{said:?}");
            }
        }
    });
    assert!(memory.bytes_max < 100_000, "{} bytes for sixteen packets", memory.bytes_max);
}

#[test]
fn arrivals_are_kept_up_to_a_bound_those_of_old_runs_go_first() {
    let now = Instant::from_millis(1_000);
    let mut server = server(100);
    let (first, second) = (Talker::enter(&mut server, 1, now), Talker::enter(&mut server, 2, now));
    let steady = spec(Pattern::Steady, UP, Duration::from_secs(1));
    let records = |server: &mut Server, talker: &Talker, run: u32| {
        let fetch = Message::Fetch { session: talker.session, run, from: 0 };
        match talker.say(server, &fetch, now).pop() {
            Some(Message::Records { arrivals, .. }) => Some(arrivals.len()),
            Some(Message::Refuse { reason: Refusal::NoSession, .. }) => None,
            other => panic!("{other:?}"),
        }
    };
    let measure = |server: &mut Server, talker: &Talker, run: u32, packets: u32| {
        assert!(matches!(talker.ask(server, run, steady, now), Message::Grant { .. }));
        (0..packets).for_each(|number| talker.data(server, run, number, now));
        let said = talker.say(server, &Message::Finish { session: talker.session, run }, now);
        let Some(Message::Summary { summary, .. }) = said.last() else { panic!("{said:?}") };
        (summary.received, summary.overflowed)
    };
    assert_eq!(measure(&mut server, &first, 1, 60), (60, 0));
    assert_eq!(measure(&mut server, &second, 1, 30), (30, 0));
    // Ten fit beside both; for the eleventh the own old run goes, not the other's.
    assert_eq!(measure(&mut server, &second, 2, 30), (30, 0));
    assert_eq!(
        [(&first, 1), (&second, 1), (&second, 2)].map(|(talker, run)| records(&mut server, talker, run)),
        [Some(60), None, Some(30)]
    );
    // More than there is room for: what is over goes, then what comes is counted, and not kept.
    assert_eq!(measure(&mut server, &second, 3, 150), (100, 50));
    assert_eq!(records(&mut server, &first, 1), None);
    // The next run has nothing to do with it.
    assert_eq!(measure(&mut server, &second, 4, 30), (30, 0));
}

#[test]
fn runs_that_overlap_do_not_keep_the_turn() {
    let mut now = Instant::from_millis(1_000);
    let mut server = server(ARRIVALS_MAX);
    let (greedy, patient) = (Talker::enter(&mut server, 1, now), Talker::enter(&mut server, 2, now));
    let slow = Rate::from_mbps(1);
    let long = RunSpec { rate: slow, ..spec(Pattern::Steady, UP, Duration::from_secs(60)) };
    let is_granted = |answer: Message| matches!(answer, Message::Grant { .. });
    assert!(is_granted(greedy.ask(&mut server, 1, long, now)));
    // A second beside the first is part of the turn, whoever waits.
    assert!(!is_granted(patient.ask(&mut server, 1, long, now)));
    now += Duration::from_millis(500);
    assert!(is_granted(greedy.ask(&mut server, 2, long, now)));
    // From here on it asks for the next one before the last is over, and keeps at most four.
    let (begin, mut run) = (now, 3);
    let waited = loop {
        now += Duration::from_millis(500);
        if is_granted(patient.ask(&mut server, 1, long, now)) {
            break now.saturating_since(begin);
        }
        assert!(now < begin + Duration::from_secs(600), "it waits for ever");
        if is_granted(greedy.ask(&mut server, run, long, now)) {
            run += 1;
        }
    };
    assert!(waited < Duration::from_secs(90), "{waited}");
    // The other waits in its turn, and has it when this one is over.
    assert!(!is_granted(greedy.ask(&mut server, run, long, now)));
    patient.say(&mut server, &Message::Finish { session: patient.session, run: 1 }, now);
    let answer = greedy.ask(&mut server, run, long, now);
    assert!(matches!(answer, Message::Grant { .. }), "{answer:?}");
    // Nobody waits: runs may overlap as they like.
    now += Duration::from_secs(20);
    assert!(is_granted(greedy.ask(&mut server, run + 1, long, now)));
}

#[test]
fn silent_flows_end_with_their_session() {
    for says_bye in [true, false] {
        let mut now = Instant::from_millis(1_000);
        let mut server = server(ARRIVALS_MAX);
        let (talker, other) = (Talker::enter(&mut server, 1, now), Talker::enter(&mut server, 2, now));
        for (talker, port) in [(&talker, 5_000), (&other, 5_001)] {
            let own = SocketAddr::new(talker.from.ip(), port);
            let idle = |cookie: Cookie| Message::Idle {
                session: talker.session,
                flow: 1,
                after: Duration::from_secs(3_000),
                cookie,
            };
            let said = talker.say_from(own, &mut server, &idle(Cookie::default()), now);
            let Some(Message::Confirm { cookie, .. }) = said.first() else { panic!("{said:?}") };
            let said = talker.say_from(own, &mut server, &idle(*cookie), now);
            assert!(matches!(said.first(), Some(Message::Held { .. })), "{said:?}");
        }
        if says_bye {
            talker.say(&mut server, &Message::Bye { session: talker.session }, now);
        }
        let mut spoken = Vec::new();
        for _ in 0..310 {
            now += Duration::from_secs(10);
            other.keep(&mut server, now);
            let speaks = said(&mut server, now).into_iter();
            spoken.extend(
                speaks.filter(|(_, message)| matches!(message, Message::Speak { .. })).map(|(to, _)| to),
            );
        }
        assert_eq!(server.session_count(), 1);
        let own = SocketAddr::new(other.from.ip(), 5_001);
        assert!(!spoken.is_empty() && spoken.iter().all(|to| *to == own), "{spoken:?}");
    }
}
