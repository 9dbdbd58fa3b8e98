//! A trial's control group: what passes is as it came, and what is measured is what happened.

use super::*;
use crate::key::subscriber_key;
use crate::trial::{ControlGroup, MeasuredFlow};
use crate::{Action, FlowState, Policy};

/// A seed with which client 1 is in the control group, and client 2 is not.
fn group() -> ControlGroup {
    let is_in = |group: ControlGroup, n| group.contains(subscriber_key(client(n).ip(), 64));
    (0..100).map(|seed| ControlGroup { seed }).find(|group| is_in(*group, 1) && !is_in(*group, 2)).unwrap()
}

fn in_trial() -> Bench {
    let mut bench = Bench::new(EngineConfig::default());
    bench.engine.begin_trial(group());
    bench
}

impl Bench {
    /// Asserts that what passes is what came, and that nothing is made.
    fn unchanged(&mut self, from: End, spec: &TcpHeaderSpec, len: usize) {
        let payload = vec![7; len];
        let mut buf = [0; TcpHeaderSpec::MAX_LEN];
        let header = spec.emit(&mut buf, &[&payload]).unwrap();
        let before = [&buf[..header.len], &payload].concat();
        let mut packet = before.clone();
        let verdict = self.engine.handle_packet(from, &VirtioNetHeader::default(), &mut packet, self.now);
        assert_eq!((verdict, &packet), (Verdict::Forward, &before));
        assert!(self.engine.poll(self.now).is_none(), "something was made");
    }

    fn down(&mut self, n: u32, seq: u32, flags: TcpFlags, len: usize) {
        let spec = TcpHeaderSpec::new(
            SERVER,
            client(n),
            SeqNum::new(seq),
            SeqNum::new(1),
            flags.with(TcpFlags::ACK),
        );
        self.unchanged(End::Source, &TcpHeaderSpec { window: 60_000, ..spec }, len);
    }

    fn up(&mut self, n: u32, seq: u32, ack: u32, flags: TcpFlags) {
        let spec = TcpHeaderSpec::new(client(n), SERVER, SeqNum::new(seq), SeqNum::new(ack), flags);
        self.unchanged(End::Sink, &TcpHeaderSpec { window: 60_000, ..spec }, 0);
    }

    /// A handshake that takes 10 ms to the server and `radio` to the client.
    fn watch(&mut self, n: u32, radio: Duration) {
        let accelerated = self.engine.stats.flows_accelerated;
        self.up(n, 0, 0, TcpFlags::SYN);
        self.now += Duration::from_millis(10);
        self.down(n, 0, TcpFlags::SYN, 0);
        self.now += radio;
        self.up(n, 1, 1, TcpFlags::ACK);
        assert_eq!(self.engine.stats.flows_accelerated, accelerated);
    }
}

fn measured(bench: &mut Bench) -> Vec<MeasuredFlow> {
    std::iter::from_fn(|| bench.engine.take_measured()).collect()
}

#[test]
fn a_flow_of_the_group_passes_bit_for_bit_and_is_measured() {
    let mut bench = in_trial();
    bench.watch(1, Duration::from_millis(40));
    assert_eq!(bench.engine.flow_reports().next().unwrap().state, FlowState::Control);
    let start = bench.now;
    let at = |ms| start + Duration::from_millis(ms);
    bench.down(1, 1, TcpFlags::NONE, 500);
    bench.now = at(2);
    bench.down(1, 501, TcpFlags::NONE, 500);
    bench.now = at(62);
    bench.up(1, 1, 1_001, TcpFlags::ACK);
    // The next one is lost on the radio and sent again: no sample, and bytes twice.
    bench.now = at(70);
    bench.down(1, 1_001, TcpFlags::NONE, 500);
    bench.now = at(370);
    bench.down(1, 1_001, TcpFlags::NONE, 500);
    bench.now = at(430);
    bench.up(1, 1, 1_501, TcpFlags::ACK);
    // One is lost before us and comes later: not sent twice.
    bench.down(1, 2_001, TcpFlags::NONE, 500);
    bench.now = at(440);
    bench.down(1, 1_501, TcpFlags::NONE, 500);
    bench.now = at(490);
    bench.up(1, 1, 2_501, TcpFlags::ACK);
    // Both ends close.
    bench.down(1, 2_501, TcpFlags::FIN, 0);
    bench.now = at(540);
    bench.up(1, 1, 2_502, TcpFlags::FIN.with(TcpFlags::ACK));
    assert_eq!(bench.engine.stats.flows_now, 0);
    let flows = measured(&mut bench);
    assert_eq!(flows.len(), 1);
    let ms = Duration::from_millis;
    let wanted = MeasuredFlow {
        subscriber: client(1).ip(),
        direction: Direction::Downlink,
        is_control: true,
        delivered_bytes: 2_501,
        resent_bytes: 500,
        busy: ms(540),
        rtt_min: Some(ms(40)),
        // That of the second segment, of the one behind the hole, and of the end.
        rtt_sum: ms(60 + 60 + 50),
        rtt_samples: 3,
    };
    assert_eq!(flows[0], wanted);
}

#[test]
fn the_delay_that_is_shown_of_the_group_is_that_of_its_flows() {
    let mut bench = Bench::new(EngineConfig::default());
    let shown = |bench: &Bench| bench.engine.subscriber_report(client(1).ip()).unwrap().path.unwrap().srtt;
    bench.establish(1);
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(50));
    bench.client_sends(1, 1, 501, TcpFlags::ACK);
    bench.run_to(ms(60));
    bench.client_sends(1, 1, 501, TcpFlags::RST.with(TcpFlags::ACK));
    let before = shown(&bench).unwrap();
    bench.engine.begin_trial(group());
    bench.now += Duration::from_secs(2);
    bench.watch(1, Duration::from_millis(40));
    for n in 0..50 {
        bench.down(1, 1 + 500 * n, TcpFlags::NONE, 500);
        bench.now += Duration::from_millis(700);
        bench.up(1, 1, 501 + 500 * n, TcpFlags::ACK);
    }
    let after = shown(&bench).unwrap();
    assert!(before < Duration::from_millis(100), "{before:?}");
    assert!(after > Duration::from_millis(650), "{after:?}, which is that of before the trial");
}

#[test]
fn others_are_accelerated_and_measured_beside_it() {
    let mut bench = in_trial();
    bench.establish(2);
    bench.server_sends(2, 1, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(50));
    bench.client_sends(2, 1, 501, TcpFlags::ACK);
    bench.run_to(ms(60));
    bench.client_sends(2, 1, 501, TcpFlags::RST.with(TcpFlags::ACK));
    let flows = measured(&mut bench);
    assert_eq!(flows.len(), 1);
    let flow = flows[0];
    assert_eq!((flow.subscriber, flow.is_control), (client(2).ip(), false));
    assert_eq!((flow.delivered_bytes, flow.resent_bytes, flow.busy), (500, 0, Duration::from_millis(50)));
    assert_eq!((flow.rtt_samples, flow.rtt_sum), (1, Duration::from_millis(50)));
}

#[test]
fn the_end_of_a_trial_lets_flows_go_and_tells_what_was_seen() {
    let mut bench = Bench::new(EngineConfig::default());
    bench.establish(2);
    bench.engine.begin_trial(group());
    bench.watch_after(1);
    bench.down(1, 1, TcpFlags::NONE, 500);
    bench.establish(2 + PER_PORT);
    assert_eq!((measured(&mut bench), bench.engine.stats.flows_now), (vec![], 3));
    bench.engine.end_trial();
    let flows = measured(&mut bench);
    let groups: Vec<bool> = flows.iter().map(|flow| flow.is_control).collect();
    assert_eq!(groups, [true, false], "the one that began before is none of it");
    assert_eq!(bench.engine.stats.flows_now, 2);
    bench.up(1, 1, 501, TcpFlags::ACK);
    bench.down(1, 501, TcpFlags::NONE, 500);
    bench.establish(1 + PER_PORT);
    assert_eq!(measured(&mut bench), [], "nothing is measured any more");
    assert!(bench.engine.levels_add_up());
}

#[test]
fn a_rule_wins_over_the_group_and_drains_end_it() {
    let policy = Policy { default: Action::Drwa, ..Policy::default() };
    let mut bench = Bench::new(EngineConfig { policy, ..EngineConfig::default() });
    bench.engine.begin_trial(group());
    bench.client_sends(1, 0, 0, TcpFlags::SYN);
    bench.server_sends(1, 0, 0, TcpFlags::SYN.with(TcpFlags::ACK), 0);
    bench.client_sends(1, 1, 1, TcpFlags::ACK);
    assert_eq!(bench.engine.stats.flows_windowed, 1);
    let mut bench = in_trial();
    bench.watch(1, Duration::from_millis(40));
    bench.engine.drain(bench.now);
    assert_eq!((bench.engine.stats.flows_now, measured(&mut bench).len()), (0, 1));
    // A connection on the same ports that begins anew.
    let mut bench = in_trial();
    bench.watch(1, Duration::from_millis(40));
    bench.up(1, 0, 0, TcpFlags::SYN);
    assert_eq!(measured(&mut bench), [], "the same SYN again");
    bench.up(1, 7, 0, TcpFlags::SYN);
    assert_eq!(measured(&mut bench), [], "anybody may send it");
    bench.server_sends(1, 0, 7, TcpFlags::SYN.with(TcpFlags::ACK), 0);
    assert_eq!((measured(&mut bench).len(), bench.engine.stats.half_open_now), (1, 1));
}

impl Bench {
    /// A flow of the group beside accelerated ones.
    fn watch_after(&mut self, n: u32) {
        let before = self.engine.stats.flows_accelerated;
        self.up(n, 0, 0, TcpFlags::SYN);
        self.down(n, 0, TcpFlags::SYN, 0);
        self.up(n, 1, 1, TcpFlags::ACK);
        assert_eq!(self.engine.stats.flows_accelerated, before);
    }
}
