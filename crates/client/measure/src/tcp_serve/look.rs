//! The server's side of `probe middlebox`: notes what came, and how what it sends is acknowledged.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;

use io::{Clock, Interest, IoError, PacketSocket, Segments, TcpInfo, Waiter};
use probe::{HttpOrder, Question, REQUEST_MAX, SessionId, http_order, to_digits};
use units::{Duration, Instant};

use super::{Shared, TURN, TcpServer};
use crate::seen::{ENDLESS_HEAD, Seen, Watch, head, refusal, text};
use crate::tcp_socket::{abort, read_by};
use probe::order::{Answer, ORDER_LEN, Order, What};

/// Connections noted for one run, for one session, and for all.
const SEEN_OF_RUN_MAX: usize = 16;
const SEEN_MAX: usize = 512;
const SEEN_OF_ALL_MAX: usize = 4_096;
/// Part of a request that is noted.
const NOTED_MAX: usize = 1_024;
/// SYN/ACKs remembered.
const SYN_ACKS_MAX: usize = 2_048;
/// Between two looks at what is acknowledged.
const LOOK_EVERY: Duration = Duration::from_millis(4);
/// Between two pieces at most, and how long each is.
const PIECE_EVERY: Duration = Duration::from_millis(100);
const PIECE_LEN: usize = 400;
/// Time after a client's delay for its acknowledgement on a slow path that loses packets.
const SPLIT_MORE: Duration = Duration::from_secs(4);
/// After an early acknowledgement more pieces are watched for this long.
const EARLY_MORE: Duration = Duration::from_secs(1);
/// Bytes offered to a client that reads nothing.
const FILL_MAX: u64 = 512 << 10;

/// A connection by its ends: the client's address, the own port.
type Ends = (SocketAddr, u16);

/// SYN/ACKs that have left, the oldest first.
#[derive(Default)]
pub(super) struct SynAcks {
    by_ends: BTreeMap<Ends, Vec<u8>>,
    order: VecDeque<Ends>,
}

impl SynAcks {
    fn note(&mut self, ends: Ends, packet: &[u8]) {
        if self.by_ends.insert(ends, packet.to_vec()).is_none() {
            self.order.push_back(ends);
        }
        if self.order.len() > SYN_ACKS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_ends.remove(&oldest);
        }
    }
}

/// Notes about sessions' connections, by run.
pub(super) type Notes = BTreeMap<SessionId, BTreeMap<u32, Vec<(Ends, Seen)>>>;

/// Longest delay that a test with delayed acknowledgements may ask for where a run may take `time_max`.
pub(crate) fn delay_max(time_max: Duration) -> Duration {
    time_max.saturating_sub(SPLIT_MORE) / 2
}

impl TcpServer {
    /// Reads the SYN/ACKs of this machine from here on, where it may.
    pub(super) fn watch_syn_acks(&mut self) {
        let Ok(socket) = PacketSocket::of_segments(Segments::SynAck) else { return };
        let Ok(mut waiter) = Waiter::new(Duration::ZERO) else { return };
        if waiter.add(&socket, Interest::Read, 0).is_err() {
            return;
        }
        let shared = std::sync::Arc::clone(&self.shared);
        self.threads.push(std::thread::spawn(move || {
            let _ = io::sched::set_ordinary_priority();
            let mut buffer = [0; 256];
            while !shared.is_over.load(Ordering::SeqCst) {
                // A failure of the wait is none of what is read.
                let _ = waiter.wait(Some(Clock::now() + TURN)).map(<[_]>::len);
                while let Ok(Some(packet)) = socket.recv(&mut buffer) {
                    let bytes = buffer.get(..packet.len).unwrap_or_default();
                    let Ok(parsed) = wire::parse_prefix(bytes) else { continue };
                    let Some(tcp) = parsed.tcp().filter(|_| packet.is_outgoing) else { continue };
                    if shared.ports.contains(&tcp.src_port) {
                        let ends = (SocketAddr::new(parsed.ip.dst, tcp.dst_port), tcp.src_port);
                        shared.state().syn_acks.note(ends, bytes);
                    }
                }
            }
        }));
    }

    /// The answer to a question.
    pub(crate) fn answer(&self, question: &Question) -> probe::Message {
        match *question {
            Question::Ports { session } => probe::Message::Ports { session, ports: self.ports.own() },
            Question::Seen { session, run, from } => {
                let json = self.report(session, run);
                let len = u32::try_from(json.len()).unwrap_or(0);
                let rest = json.get(from as usize..).unwrap_or_default();
                // The message has room for so much.
                let bytes = rest.get(..1_000).unwrap_or(rest).to_vec();
                probe::Message::Seen { session, run, from, len, bytes }
            }
        }
    }

    /// Report of a run, as JSON: a list of connections.
    fn report(&self, session: SessionId, run: u32) -> Vec<u8> {
        let state = self.shared.state();
        let noted = state.notes.get(&session).and_then(|runs| runs.get(&run));
        let seen = noted.into_iter().flatten().map(|(ends, seen)| {
            let syn_ack = state.syn_acks.by_ends.get(ends).map(|packet| to_digits(packet));
            Seen { syn_ack, ..seen.clone() }
        });
        let seen: Vec<Seen> = seen.collect();
        serde_json::to_vec(&seen).unwrap_or_default()
    }
}

/// Reads the rest of a request that has begun with `begin`; none where it is none of ours, or not whole by
/// `deadline`.
pub(super) fn request(
    stream: &TcpStream,
    begin: &[u8],
    deadline: Instant,
) -> Option<([u8; ORDER_LEN], Vec<u8>)> {
    let mut bytes = begin.to_vec();
    loop {
        match http_order(&bytes) {
            HttpOrder::Whole { digits, .. } => {
                let order = probe::from_digits(digits)?.try_into().ok()?;
                return Some((order, bytes));
            }
            HttpOrder::Other => return None,
            HttpOrder::Unfinished => {}
        }
        let mut more = [0; 512];
        let count = read_by(stream, &mut more, deadline)?;
        bytes.extend(more.get(..count)?);
        if bytes.len() > REQUEST_MAX {
            return None;
        }
    }
}

/// Says no in HTTP.
pub(super) fn refuse(mut stream: &TcpStream, answer: Answer) {
    let _ = stream.write_all(refusal(answer as u8).as_bytes());
}

/// Does what an order within HTTP asks for, and notes it.
pub(super) fn serve(
    stream: &TcpStream,
    order: &Order,
    (syn, request): (Option<Vec<u8>>, &[u8]),
    shared: &Shared,
) -> Result<(), IoError> {
    let (Ok(from), Ok(own)) = (stream.peer_addr(), stream.local_addr()) else { return Ok(()) };
    let from = SocketAddr::new(from.ip().to_canonical(), from.port());
    let info = TcpInfo::of(stream)?;
    let mut seen = Seen {
        port: own.port(),
        from: from.to_string(),
        syn: syn.map(|syn| to_digits(&syn)),
        syn_ack: None,
        request: String::from_utf8_lossy(request.get(..NOTED_MAX).unwrap_or(request)).into_owned(),
        handshake_ms: (!info.srtt.is_zero()).then(|| info.srtt.as_millis_f64()),
        waited_ms: None,
        offered_mss: info.offered_mss,
        shift: info.has_window_scale.then_some(info.own_shift),
        has_sack: info.has_sack,
        has_timestamps: info.has_timestamps,
        has_ecn: info.has_ecn,
        has_seen_ecn: info.has_seen_ecn,
        watch: None,
    };
    let note = |seen: Seen| -> usize {
        let mut state = shared.state();
        if !state.sessions.contains_key(&order.session) {
            return 0;
        }
        note_in(&mut state.notes, (order.session, order.run), ((from, own.port()), seen))
    };
    match order.what {
        What::Split => {
            seen.watch = Some(split(stream, order, shared)?);
            note(seen);
        }
        What::Fill => {
            seen.watch = Some(fill(stream, order, shared)?);
            note(seen);
            // What the client has got by now is its own to count: the connection stays until it has.
            wait_for_end(stream, order, shared)?;
            abort(stream);
        }
        _ => {
            let count = note(seen);
            let answer = head(order.run, count) + &text(order.run, count);
            let mut stream = stream;
            let _ = stream.write_all(answer.as_bytes());
            // Afterwards, and by the kernel's clock: this thread may wait for a processor at any moment.
            let info = TcpInfo::of(&stream)?;
            let waited = info.last_data_received.saturating_sub(info.last_data_sent);
            note_wait(&mut shared.state().notes, (order.session, order.run), count, waited);
        }
    }
    Ok(())
}

/// Notes a connection of a run where there is room; how many the run has then, or none.
fn note_in(notes: &mut Notes, (session, run): (SessionId, u32), seen: (Ends, Seen)) -> usize {
    let count = |runs: &BTreeMap<u32, Vec<(Ends, Seen)>>| runs.values().map(Vec::len).sum::<usize>();
    let all: usize = notes.values().map(count).sum();
    let runs = notes.entry(session).or_default();
    let has_room = all < SEEN_OF_ALL_MAX && count(runs) < SEEN_MAX;
    let list = runs.entry(run).or_default();
    if has_room && list.len() < SEEN_OF_RUN_MAX {
        list.push(seen);
        return list.len();
    }
    if list.is_empty() {
        runs.remove(&run);
    }
    0
}

/// Notes for how long the request of a run's connection number `count`, from 1, had lain when it was answered.
fn note_wait(notes: &mut Notes, (session, run): (SessionId, u32), count: usize, waited: Duration) {
    let list = notes.get_mut(&session).and_then(|runs| runs.get_mut(&run));
    if let Some((_, seen)) = list.and_then(|list| list.get_mut(count.checked_sub(1)?)) {
        seen.waited_ms = Some(waited.as_millis_f64());
    }
}

fn millis(time: Duration) -> f64 {
    // Enough for a round trip, and short in JSON.
    (time.as_millis_f64() * 100.0).round() / 100.0
}

/// Sends small pieces, and sees when each is acknowledged, until that is known of one that took the client's
/// delay, or of some that did not, or for twice the delay and some more.
fn split(mut stream: &TcpStream, order: &Order, shared: &Shared) -> Result<Watch, IoError> {
    let delay = order.length;
    let _ = stream.set_nodelay(true);
    let _ = stream.set_nonblocking(true);
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(stream, Interest::Read, 0)?;
    let base = TcpInfo::of(&stream)?.bytes_acked;
    let begin = Clock::now();
    let mut end = begin + delay * 2 + SPLIT_MORE;
    let every = (delay / 20).min(PIECE_EVERY).max(LOOK_EVERY);
    // Written at, its end, acknowledged after.
    let mut pieces: Vec<(Instant, u64, Option<Duration>)> = Vec::new();
    let (mut written, mut acked, mut next) = (0, 0, begin);
    let piece = vec![b'.'; PIECE_LEN];
    while Clock::now() < end && shared.is_wanted(order) {
        let now = Clock::now();
        if now >= next {
            next += every;
            let bytes = if written == 0 { ENDLESS_HEAD.as_bytes() } else { &piece };
            match stream.write(bytes) {
                Ok(count) => {
                    written += count as u64;
                    pieces.push((now, written, None));
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => break,
            }
        }
        acked = TcpInfo::of(&stream)?.bytes_acked.saturating_sub(base);
        let now = Clock::now();
        for (at, _, after) in pieces.iter_mut().filter(|(_, end, after)| after.is_none() && *end <= acked) {
            *after = Some(now.saturating_since(*at));
            let more = if now.saturating_since(*at) < delay { EARLY_MORE } else { Duration::ZERO };
            end = end.min(now + more);
        }
        if is_ended(stream, &mut waiter, LOOK_EVERY)? {
            break;
        }
    }
    let info = TcpInfo::of(&stream)?;
    abort(stream);
    let pieces = pieces.iter().map(|(at, _, after)| (millis(at.saturating_since(begin)), after.map(millis)));
    Ok(Watch {
        seconds: Clock::now().saturating_since(begin).as_secs_f64(),
        written,
        acked,
        rtt_min_ms: info.rtt_min.as_millis_f64(),
        retransmitted: info.retransmitted,
        pieces: pieces.collect(),
    })
}

/// Sends what the kernel takes, and sees how much of it is acknowledged.
fn fill(mut stream: &TcpStream, order: &Order, shared: &Shared) -> Result<Watch, IoError> {
    let _ = stream.set_nonblocking(true);
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(stream, Interest::Read, 0)?;
    let base = TcpInfo::of(&stream)?.bytes_acked;
    let begin = Clock::now();
    let chunk = vec![b'.'; 16 << 10];
    let mut written = stream.write(ENDLESS_HEAD.as_bytes()).map_or(0, |count| count as u64);
    while Clock::now() < begin + order.length && shared.is_wanted(order) {
        while written < FILL_MAX {
            let Ok(count) = stream.write(&chunk) else { break };
            written += count as u64;
        }
        if is_ended(stream, &mut waiter, LOOK_EVERY * 5)? {
            break;
        }
    }
    let info = TcpInfo::of(&stream)?;
    Ok(Watch {
        seconds: Clock::now().saturating_since(begin).as_secs_f64(),
        written,
        acked: info.bytes_acked.saturating_sub(base),
        rtt_min_ms: info.rtt_min.as_millis_f64(),
        retransmitted: info.retransmitted,
        pieces: Vec::new(),
    })
}

fn wait_for_end(stream: &TcpStream, order: &Order, shared: &Shared) -> Result<(), IoError> {
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(stream, Interest::Read, 0)?;
    let end = Clock::now() + order.length + SPLIT_MORE;
    while Clock::now() < end && shared.is_wanted(order) {
        if is_ended(stream, &mut waiter, TURN)? {
            break;
        }
    }
    Ok(())
}

/// Waits; true when the client has ended the connection.
fn is_ended(mut stream: &TcpStream, waiter: &mut Waiter, time: Duration) -> Result<bool, IoError> {
    if waiter.wait(Some(Clock::now() + time))?.is_empty() {
        return Ok(false);
    }
    match stream.read(&mut [0; 512]) {
        Ok(0) => Ok(true),
        Ok(_) => Ok(false),
        Err(e) => Ok(!matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_of_connections_is_bounded_by_run_session_and_in_all() {
        let seen = Seen {
            port: 80,
            from: String::new(),
            syn: None,
            syn_ack: None,
            request: String::new(),
            handshake_ms: None,
            waited_ms: None,
            offered_mss: 0,
            shift: None,
            has_sack: false,
            has_timestamps: false,
            has_ecn: false,
            has_seen_ecn: false,
            watch: None,
        };
        let ends = (SocketAddr::from(([192, 0, 2, 1], 1)), 80);
        let mut notes = Notes::new();
        let mut note = |session: u64, run: u32| note_in(&mut notes, (session, run), (ends, seen.clone()));
        for count in 1..=SEEN_OF_RUN_MAX {
            assert_eq!(note(1, 1), count);
        }
        assert_eq!(note(1, 1), 0, "a run's");
        let rest = (SEEN_MAX - SEEN_OF_RUN_MAX) as u32;
        assert!((0..rest).all(|run| note(1, 10 + run) == 1) && note(1, 9) == 0, "a session's");
        let sessions = (SEEN_OF_ALL_MAX / SEEN_MAX) as u64;
        let mut fill = |session: u64| (0..SEEN_MAX as u32).all(|run| note(session, run) == 1);
        assert!((2..=sessions).all(&mut fill));
        assert_eq!(note(100, 1), 0, "in all");
        assert_eq!(notes.values().flat_map(BTreeMap::values).map(Vec::len).sum::<usize>(), SEEN_OF_ALL_MAX);
        assert!(notes.values().flat_map(BTreeMap::values).all(|list| !list.is_empty()));
    }
}
