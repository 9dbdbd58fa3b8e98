//! Each rule of the simulator has a middlebox that breaks it, and is found out.

// Helpers of a test are test code too, which the lint cannot know.

use control::{ControllerConfig, RateParams};
use engine::{Engine, EngineConfig, Middlebox, PassThrough, Port, Transmit, Verdict};
use sim::{Application, LineUp, MiddleboxUnderTest, ReceiveWindow, SimError, Tolerance, Violation};
use units::{Bytes, Duration, Instant, Rate, SeqNum};
use wire::{ChecksumState, Tcp, TcpEditor, TcpFlags, TcpHeaderSpec, VirtioNetHeader};

fn line_up() -> LineUp {
    let ms = Duration::from_millis;
    LineUp::server(Application::bulk(400_000))
        .wan(Rate::from_mbps(100), ms(5))
        .radio(Rate::from_mbps(10), ms(20))
        .client(Application::sink())
}

fn engine() -> Engine {
    // Whose pieces are small enough to be single packets now and then, which are what is spoilt.
    let controller = ControllerConfig::Rate(RateParams::default());
    Engine::new(EngineConfig { controller, ..EngineConfig::default() }).unwrap()
}

/// What a spoilt packet is to become.
type Spoil = fn(&mut Vec<u8>, &Tcp, u64) -> bool;

/// An engine whose packets somebody spoils on the way out; from the hundredth on, when all is under way.
struct Spoilt {
    engine: Engine,
    to: Port,
    spoil: Spoil,
    seen: u64,
    /// The packet that leaves, as it was or spoilt.
    leaving: Vec<u8>,
}

impl Spoilt {
    fn new(to: Port, spoil: Spoil) -> Self {
        Self { engine: engine(), to, spoil, seen: 0, leaving: Vec::new() }
    }
}

impl MiddleboxUnderTest for Spoilt {}

impl Middlebox for Spoilt {
    fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        self.engine.handle_packet(from, virtio, packet, now)
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let (to, virtio) = loop {
            let made = self.engine.poll_transmit(now)?;
            let (to, virtio) = (made.to, made.virtio);
            self.leaving = made.to_vec();
            let is_super = virtio.gso_size > 0;
            if to != self.to {
                break (to, virtio);
            }
            self.seen += 1;
            // Whole packets with checksums of their own are easier to spoil.
            wire::complete_checksum(&mut self.leaving, &virtio).unwrap();
            if is_super {
                break (to, virtio);
            }
            let parsed = wire::parse(&self.leaving).unwrap();
            if self.seen < 100 || (self.spoil)(&mut self.leaving, parsed.tcp().unwrap(), self.seen) {
                break (to, VirtioNetHeader::default());
            }
        };
        Some(Transmit { to, virtio, header: &self.leaving, payload: (&[], &[]) })
    }
    fn next_deadline(&self) -> Option<Instant> {
        self.engine.next_deadline()
    }
}

fn violation<M: MiddleboxUnderTest>(line_up: &LineUp, middlebox: M) -> Violation {
    match line_up.around(middlebox).unwrap().run() {
        Err(SimError::Broken { violation, .. }) => violation,
        other => panic!("{other:?}"),
    }
}

fn rule(to: Port, spoil: Spoil) -> &'static str {
    match violation(&line_up(), Spoilt::new(to, spoil)) {
        Violation::Packet { rule, .. } => rule,
        other => panic!("{other}"),
    }
}

fn edit<'a>(packet: &'a mut [u8], tcp: &Tcp) -> TcpEditor<'a> {
    TcpEditor::new(packet, tcp, ChecksumState::Complete)
}

#[test]
fn a_wrong_checksum() {
    let spoil: Spoil = |packet, _, _| {
        *packet.last_mut().unwrap() ^= 1;
        true
    };
    assert_eq!(rule(Port::Mobile, spoil), "a checksum is wrong");
}

#[test]
fn an_early_acknowledgement_of_what_has_not_arrived() {
    let spoil: Spoil = |packet, tcp, _| {
        edit(packet, tcp).set_ack(tcp.ack + 1);
        true
    };
    assert_eq!(rule(Port::Wired, spoil), "it acknowledges what the middlebox does not have");
}

#[test]
fn a_window_taken_back() {
    let spoil: Spoil = |packet, tcp, seen| {
        edit(packet, tcp).set_window(if seen == 120 { 10 } else { tcp.window });
        true
    };
    assert_eq!(rule(Port::Wired, spoil), "it takes back a part of the window");
}

#[test]
fn a_timestamp_that_goes_back() {
    let spoil: Spoil = |packet, tcp, seen| {
        let value = tcp.options.timestamps.unwrap().value;
        edit(packet, tcp).set_timestamp_value(if seen == 120 { value - 1_000 } else { value });
        true
    };
    for to in [Port::Mobile, Port::Wired] {
        assert_eq!(rule(to, spoil), "its TSval is older than one sent before in this direction");
    }
}

#[test]
fn data_that_the_server_never_sent() {
    let spoil: Spoil = |packet, tcp, _| {
        edit(packet, tcp).set_seq(tcp.seq + 3_000_000);
        true
    };
    assert_eq!(rule(Port::Mobile, spoil), "it carries data the middlebox does not have");
}

/// The same segment with another header.
fn rebuilt(packet: &[u8], tcp: &Tcp, change: impl Fn(&mut TcpHeaderSpec)) -> Vec<u8> {
    let parsed = wire::parse(packet).unwrap();
    let (src, dst) = ((parsed.ip.src, tcp.src_port).into(), (parsed.ip.dst, tcp.dst_port).into());
    let mut spec = TcpHeaderSpec::new(src, dst, tcp.seq, tcp.ack, tcp.flags);
    (spec.window, spec.timestamps) = (tcp.window, tcp.options.timestamps);
    change(&mut spec);
    sim::build_packet(&spec, &[], &[tcp.payload(packet)]).unwrap()
}

#[test]
fn timestamps_left_out() {
    let spoil: Spoil = |packet, tcp, _| {
        *packet = rebuilt(packet, tcp, |spec| spec.timestamps = None);
        true
    };
    assert_eq!(rule(Port::Mobile, spoil), "timestamps are not as negotiated");
}

#[test]
fn sack_that_was_not_negotiated() {
    let spoil: Spoil = |packet, tcp, _| {
        let block = wire::SackBlock { start: tcp.ack - 10, end: tcp.ack - 5 };
        *packet = rebuilt(packet, tcp, |spec| spec.sack = [block].into_iter().collect());
        true
    };
    let line_up = line_up().with(|config| config.flows[0].client.sack = false);
    let found = violation(&line_up, Spoilt::new(Port::Wired, spoil)).to_string();
    assert!(found.contains("SACK was not negotiated"), "{found}");
}

#[test]
fn a_segment_longer_than_the_receiver_takes() {
    // The client changes its mind about its MSS where only the rules can see it.
    struct Glutton(Engine);
    impl MiddleboxUnderTest for Glutton {}
    impl Middlebox for Glutton {
        fn handle_packet(
            &mut self,
            from: Port,
            virtio: &VirtioNetHeader,
            packet: &mut [u8],
            now: Instant,
        ) -> Verdict {
            let before = packet.to_vec();
            let parsed = wire::parse(packet).unwrap();
            let tcp = parsed.tcp().unwrap();
            if from == Port::Mobile && tcp.flags.contains(TcpFlags::SYN) {
                // Its own idea of the SYN says 1,460 instead of 1,000.
                let mut other = rebuilt(packet, tcp, |spec| {
                    spec.mss = Some(1_460);
                    spec.sack_permitted = true;
                    spec.window_scale = tcp.options.window_scale;
                });
                let verdict = self.0.handle_packet(from, virtio, &mut other, now);
                packet.copy_from_slice(&before);
                return verdict;
            }
            self.0.handle_packet(from, virtio, packet, now)
        }
        fn handle_timeout(&mut self, now: Instant) {
            self.0.handle_timeout(now);
        }
        fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
            self.0.poll_transmit(now)
        }
        fn next_deadline(&self) -> Option<Instant> {
            self.0.next_deadline()
        }
    }
    let line_up = line_up().with(|config| config.flows[0].client.mss = 1_000);
    let found = violation(&line_up, Glutton(engine())).to_string();
    assert!(found.contains("longer than the receiver's MSS"), "{found}");
}

#[test]
fn more_debt_than_agreed() {
    let line_up = line_up().with(|config| config.checks.debt_max = Bytes::new(100_000));
    let found = violation(&line_up, engine());
    assert!(matches!(found, Violation::Debt { .. }), "{found}");
}

#[test]
fn more_memory_than_agreed() {
    let line_up = line_up().with(|config| config.checks.memory_max = Bytes::new(60_000));
    let found = violation(&line_up, engine());
    assert!(matches!(found, Violation::Memory { .. }), "{found}");
}

#[test]
fn a_client_left_waiting() {
    // After a while nothing goes to the client any more, and the debt grows old.
    let spoil: Spoil = |_, _, _| false;
    let found = violation(&line_up(), Spoilt::new(Port::Mobile, spoil));
    assert!(matches!(found, Violation::Silent { .. }), "{found}");
}

/// A router with a fault of its own.
struct Router<F>(F);

impl<F: FnMut(Port, &mut [u8]) -> bool> MiddleboxUnderTest for Router<F> {}

impl<F: FnMut(Port, &mut [u8]) -> bool> Middlebox for Router<F> {
    fn handle_packet(&mut self, from: Port, _: &VirtioNetHeader, packet: &mut [u8], _: Instant) -> Verdict {
        if (self.0)(from, packet) { Verdict::Forward } else { Verdict::Consumed }
    }
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        None
    }
    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

fn tcp_of(packet: &[u8]) -> Tcp {
    *wire::parse(packet).unwrap().tcp().unwrap()
}

#[test]
fn a_byte_changed_with_its_checksum() {
    let mut count = 0;
    let box_ = Router(move |_, packet: &mut [u8]| {
        let tcp = tcp_of(packet);
        count += u64::from(tcp.payload_len > 1_000);
        if count == 50 && tcp.payload_len > 1_000 {
            // The same amount up in one word and down in another: the sum stays as it was.
            let at = tcp.payload_offset & !1;
            packet.swap(at + 10, at + 12);
            packet.swap(at + 11, at + 13);
        }
        true
    });
    let found = violation(&line_up(), box_);
    assert!(matches!(found, Violation::WrongByte { host: "client", .. }), "{found}");
}

#[test]
fn a_syn_that_was_changed() {
    let box_ = Router(|_, packet: &mut [u8]| {
        let tcp = tcp_of(packet);
        if tcp.flags.contains(TcpFlags::SYN) {
            edit(packet, &tcp).set_window(1_000);
        }
        true
    });
    let found = violation(&line_up(), box_).to_string();
    assert!(found.contains("a SYN was changed"), "{found}");
}

#[test]
fn a_reset_turned_into_an_end_of_stream() {
    let box_ = Router(|_, packet: &mut [u8]| {
        let tcp = tcp_of(packet);
        if tcp.flags.contains(TcpFlags::RST) {
            edit(packet, &tcp).set_flags(TcpFlags::FIN | TcpFlags::ACK);
        }
        true
    });
    let line_up = line_up().with(|config| {
        config.flows[0].server.app = Application::bulk(400_000).aborting_after_sending(200_000);
        config.flows[0].client.timestamps = None;
    });
    let found = violation(&line_up, box_).to_string();
    assert!(found.contains("it carries data the middlebox does not have"), "{found}");
}

#[test]
fn an_end_that_is_acknowledged_before_the_client_did() {
    let spoil: Spoil = |packet, tcp, _| {
        // 400,000 bytes and the SYN: the next number is the FIN's.
        if tcp.ack == SeqNum::new(0xffff_ff01) + 400_000 {
            edit(packet, tcp).set_ack(tcp.ack + 1);
        }
        true
    };
    let found = rule(Port::Wired, spoil);
    assert_eq!(found, "it acknowledges an end of stream the other host has not acknowledged");
}

#[test]
fn a_reset_that_the_other_side_never_hears_of() {
    let box_ = Router(|_, packet: &mut [u8]| !tcp_of(packet).flags.contains(TcpFlags::RST));
    let line_up = LineUp::server(Application::sink())
        .wan(Rate::from_mbps(100), Duration::from_millis(5))
        .radio(Rate::from_mbps(10), Duration::from_millis(20))
        .client(Application::bulk(400_000))
        .with(|config| config.flows[0].server.app = Application::sink().aborting_after(100_000));
    let found = violation(&line_up, box_);
    assert!(matches!(found, Violation::WrongEnd { .. } | Violation::Stalled { .. }), "{found}");
}

#[test]
fn a_deadline_that_never_moves_and_a_box_that_acts_twice() {
    struct Restless(bool);
    impl MiddleboxUnderTest for Restless {}
    impl Middlebox for Restless {
        fn handle_packet(&mut self, _: Port, _: &VirtioNetHeader, _: &mut [u8], _: Instant) -> Verdict {
            self.0 = true;
            Verdict::Forward
        }
        fn handle_timeout(&mut self, _: Instant) {}
        fn poll_transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
            None
        }
        fn next_deadline(&self) -> Option<Instant> {
            self.0.then_some(Instant::ZERO)
        }
    }
    let found = violation(&line_up(), Restless(false));
    assert!(matches!(found, Violation::Busy), "{found}");

    /// Each call moves its deadline, though no time has passed.
    struct Fickle(u64);
    impl MiddleboxUnderTest for Fickle {}
    impl Middlebox for Fickle {
        fn handle_packet(&mut self, _: Port, _: &VirtioNetHeader, _: &mut [u8], _: Instant) -> Verdict {
            Verdict::Forward
        }
        fn handle_timeout(&mut self, _: Instant) {
            self.0 += 1;
        }
        fn poll_transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
            None
        }
        fn next_deadline(&self) -> Option<Instant> {
            Some(Instant::FAR_FUTURE - Duration::from_nanos(self.0))
        }
    }
    let found = violation(&line_up(), Fickle(0));
    assert!(matches!(found, Violation::Twice { .. }), "{found}");
}

#[test]
fn what_the_line_up_itself_breaks_is_forgiven_only_when_it_says_so() {
    let narrow = |tolerance| {
        line_up().with(move |config| {
            config.radios[0].down.faults.mtu = Some(sim::Mtu { bytes: 1_000, sends_icmp: false });
            config.flows[0].client.window = ReceiveWindow::Fixed(Bytes::new(60_000));
            config.checks.tolerance = tolerance;
            config.checks.ends_by = Instant::ZERO + Duration::from_secs(3_000);
        })
    };
    assert!(narrow(Tolerance::Nothing).around(PassThrough).unwrap().run().is_err());
    assert!(narrow(Tolerance::Failures).around(PassThrough).unwrap().run().is_ok());
}

#[test]
fn where_windows_are_lowered_nothing_else_is_done() {
    let line_up = line_up().with(|config| config.checks.lowers_windows_only = true);
    let rule = |from, meddle: fn(&mut [u8], &Tcp)| {
        let meddler = Router(move |side, packet: &mut [u8]| {
            let tcp = tcp_of(packet);
            if side == from && !tcp.flags.contains(TcpFlags::SYN) {
                meddle(packet, &tcp);
            }
            true
        });
        match violation(&line_up, meddler) {
            Violation::Packet { rule, .. } => rule,
            other => panic!("{other}"),
        }
    };
    let changed = "it was changed otherwise than in the client's window";
    assert_eq!(rule(Port::Mobile, |p, tcp| edit(p, tcp).set_ack(tcp.ack + 1)), changed);
    assert_eq!(rule(Port::Mobile, |p, tcp| assert!(edit(p, tcp).set_timestamp_value(1))), changed);
    assert_eq!(rule(Port::Wired, |p, tcp| edit(p, tcp).set_window(tcp.window - 1)), changed);
    let larger = rule(Port::Mobile, |p, tcp| edit(p, tcp).set_window(tcp.window.saturating_add(1)));
    assert_eq!(larger, "its window is larger than the client's own");
    let back = rule(Port::Mobile, |p, tcp| edit(p, tcp).set_window(tcp.window.min(100)));
    assert_eq!(back, "it takes back a part of the window");
    // An engine that splits the flow says windows of its own, before it makes any packet.
    match violation(&line_up, engine()) {
        Violation::Packet { rule, .. } => assert_eq!(rule, larger),
        other => panic!("{other}"),
    }
    // And one that does as it should is let through.
    let policy = engine::Policy { default: engine::Action::Drwa, ..engine::Policy::default() };
    let lowers = Engine::new(EngineConfig { policy, ..EngineConfig::default() }).unwrap();
    let line_up = line_up
        .with(|config| config.flows = vec![LineUp::flow(Application::bulk(4_000_000), Application::sink())]);
    let mut network = line_up.around(lowers).unwrap();
    network.run().unwrap();
    assert!(network.middlebox().stats().windows_lowered > 100);
}
