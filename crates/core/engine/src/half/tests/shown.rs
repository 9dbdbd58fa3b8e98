//! Pages of flows and subscribers, as status displays ask for them.

use units::Bytes;

use super::*;
use crate::report::{FlowReport, Page, SubscriberReport};

#[test]
fn pages_together_are_the_table_and_each_looks_at_few_places() {
    let mut bench = Bench::new(EngineConfig::default());
    (1..=7).for_each(|n| bench.establish(n));
    let reset = TcpFlags::RST.with(TcpFlags::ACK);
    bench.client_sends(3, 1, 1, reset);
    let walk = |looks: u32, client| {
        let (mut found, mut asked, mut from) = (Vec::new(), 0, Some(0));
        while let Some(at) = from {
            let Page { found: part, next } = bench.engine.flow_page(client, at as u32, looks);
            assert!(part.len() <= looks as usize);
            found.extend(part.into_iter().map(|flow: FlowReport| flow.client));
            (asked, from) = (asked + 1, next);
        }
        (found, asked)
    };
    let all: Vec<_> = [1, 2, 4, 5, 6, 7].map(client).to_vec();
    assert_eq!(walk(3, None), (all.clone(), 3));
    assert_eq!(walk(100, None), (all, 1));
    assert_eq!(walk(2, Some(client(6).ip())), (vec![client(6)], 4));
    assert_eq!(bench.engine.flow_page(None, u32::MAX, 5), Page::default(), "behind the end is nothing");
    let Page { found, next } = bench.engine.subscriber_page(0, 2);
    assert_eq!((found.len(), next), (2, Some(2)));
}

#[test]
fn a_subscriber_shows_what_was_delivered_and_sent_again_and_how_long_it_took() {
    let mut bench = Bench::established(EngineConfig::default());
    let shown = |bench: &Bench| -> SubscriberReport {
        let shown = bench.engine.subscriber_report(client(1).ip()).unwrap();
        assert_eq!(bench.engine.subscriber_page(0, 9).found, [shown], "the same, however it is found");
        shown
    };
    let before = shown(&bench);
    assert_eq!((before.address, before.port, before.flows), (client(1).ip(), None, 1));
    assert!(before.path.is_none(), "there was no data");
    assert!(bench.engine.subscriber_report(client(2).ip()).is_none());
    bench.server_sends(1, 1, 0, TcpFlags::ACK, 500);
    bench.run_to(ms(40));
    bench.client_sends(1, 1, 501, TcpFlags::ACK);
    let path = shown(&bench).path.unwrap();
    assert_eq!(
        (path.delivered, path.retransmitted, path.in_flight),
        (Bytes::new(500), Bytes::new(0), Bytes::new(0))
    );
    assert!(path.srtt.unwrap() > units::Duration::ZERO && path.queueing.is_some());
    // What nobody acknowledges is sent again.
    bench.server_sends(1, 501, 0, TcpFlags::ACK, 300);
    bench.run_to(ms(5_000));
    let path = shown(&bench).path.unwrap();
    assert!(path.retransmitted >= Bytes::new(300) && path.held > Bytes::new(0), "{path:?}");
    assert_eq!(path.delivered, Bytes::new(500));
}
