use std::io::{BufRead, BufReader};

use serde_json::Value;

use super::*;

const ALL: Wishes = Wishes { events: true, flows: true, ended: true };

fn outage() -> Notice {
    Notice::OutageEnded { subscriber: "10.0.0.7".parse().unwrap(), lasted: units::Duration::from_millis(700) }
}

fn listener(broadcaster: &EventBroadcaster, wishes: Wishes) -> BufReader<UnixStream> {
    let (own, other) = UnixStream::pair().unwrap();
    own.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(broadcaster.add(other, wishes));
    BufReader::new(own)
}

fn line(from: &mut impl BufRead) -> Value {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn lines_have_the_fields_of_their_schema() {
    let schema: Value =
        serde_json::from_str(include_str!("../../../../../schemas/event.schema.json")).unwrap();
    let host = || "10.1.0.2:5".parse().unwrap();
    let name = FlowName { client: host(), server: host(), direction: engine::Direction::Uplink };
    let ended = EndedFlow {
        flow: name,
        is_both: true,
        reason: None,
        began: Some(Instant::ZERO),
        ended: Instant::ZERO,
        sides: Default::default(),
        taken_bytes: 0,
        delivered_bytes: 0,
        retransmitted_bytes: 0,
        timeouts: 0,
        rtt_min: None,
        srtt: None,
    };
    let notices = [
        Notice::Accelerated(name),
        Notice::Passed(name, engine::PassReason::Mptcp),
        Notice::TimeoutUndone(name),
        Notice::OutageBegan { subscriber: host().ip(), since: Instant::ZERO },
        outage(),
        Notice::Ended(ended),
    ];
    let lost = FlowEvent::Lost { lines: 1 };
    let mut seen = vec!["instance".to_owned()];
    for event in notices.map(FlowEvent::from).into_iter().chain([lost]) {
        let line: Value = serde_json::from_str(&stamped(&serde_json::to_string(&event).unwrap())).unwrap();
        let name = line["event"].as_str().unwrap();
        let known = schema["$defs"][name]["properties"].as_object().unwrap();
        let fields = line.as_object().unwrap();
        assert_eq!(fields.keys().collect::<Vec<_>>(), known.keys().collect::<Vec<_>>(), "{name}");
        assert_eq!(schema["$defs"][name]["required"].as_array().unwrap().len(), known.len());
        seen.push(name.to_owned());
        let again: FlowEvent = serde_json::from_value(line).unwrap();
        assert_eq!(again, event);
    }
    let all = schema["oneOf"].as_array().unwrap().iter().map(|one| one["$ref"].as_str().unwrap());
    assert_eq!(all.map(|one| one.trim_start_matches("#/$defs/")).collect::<Vec<_>>(), seen);
    let died: Value = serde_json::to_value(Event::WatchdogDied.with_text()).unwrap();
    for field in schema["$defs"]["instance"]["required"].as_array().unwrap().iter().skip(1) {
        assert!(died.get(field.as_str().unwrap()).is_some(), "{field}");
    }
}

#[test]
fn each_hears_what_it_wishes() {
    let broadcaster = EventBroadcaster::start().unwrap();
    let mut all = listener(&broadcaster, ALL);
    let mut events = listener(&broadcaster, Wishes { events: true, ..Wishes::default() });
    assert_eq!(broadcaster.0.wants.load(Ordering::Relaxed), EVENTS | ENDED);
    broadcaster.0.hand_in(Item::Notice(outage()));
    let mut said = Vec::new();
    let mut inner = |event: &Event| said.push(event.line());
    let mut announcer = Announcer { inner: &mut inner, broadcaster: broadcaster.clone() };
    announcer.on_event(&Event::WatchdogDied);
    let outage = line(&mut all);
    assert_eq!((&outage["event"], &outage["lasted_ms"]), (&"outage-ended".into(), &700.into()));
    assert_eq!(outage["subscriber"], "10.0.0.7");
    assert!(outage["at_ms"].as_u64().unwrap() > 1_600_000_000_000, "{outage}");
    for listener in [&mut all, &mut events] {
        let died = line(listener);
        assert_eq!((&died["event"], &died["severity"]), (&"watchdog-died".into(), &"warning".into()));
    }
    assert_eq!(said.len(), 1);
}

#[test]
fn who_is_slow_loses_lines_and_is_told_how_many_and_nobody_waits() {
    const LINES: u64 = 200_000;
    let broadcaster = EventBroadcaster::start().unwrap();
    let mut slow = listener(&broadcaster, ALL);
    // It takes in nothing, so that its socket and its queue fill up.
    for _ in 0..LINES {
        broadcaster.0.hand_in(Item::Notice(outage()));
    }
    // What had no room yet is lost with the lines before; the last line says so.
    let (mut heard, mut lost) = (0, 0);
    while heard + lost < LINES {
        let said = line(&mut slow);
        match said["lines"].as_u64() {
            Some(lines) => lost += lines,
            None => heard += 1,
        }
    }
    assert!(lost > 0 && heard > 0, "{heard} heard, {lost} lost");
}

#[test]
fn what_was_told_last_is_heard_before_the_end() {
    for _ in 0..20 {
        let broadcaster = EventBroadcaster::start().unwrap();
        let mut events = listener(&broadcaster, ALL);
        let mut inner = |_: &Event| {};
        Announcer { inner: &mut inner, broadcaster: broadcaster.clone() }.on_event(&Event::ReplacedEnded);
        broadcaster.part();
        assert_eq!(line(&mut events)["event"], "replaced-ended");
        assert_eq!(events.read_line(&mut String::new()).unwrap(), 0, "that is the end");
    }
}

#[test]
fn who_goes_is_forgotten_and_nothing_is_noted_any_more() {
    let broadcaster = EventBroadcaster::start().unwrap();
    let listeners: Vec<_> = (0..LISTENERS_MAX).map(|_| listener(&broadcaster, ALL)).collect();
    let (_own, other) = UnixStream::pair().unwrap();
    assert!(!broadcaster.add(other, ALL), "one too many");
    drop(listeners);
    let began = Clock::now();
    while broadcaster.0.wants.load(Ordering::Relaxed) != 0 {
        assert!(Clock::now().saturating_since(began) < units::Duration::from_secs(10));
        thread::yield_now();
    }
    drop(listener(&broadcaster, ALL));
}
