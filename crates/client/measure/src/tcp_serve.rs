//! [`TcpServer`]: the server's side of `probe tcp`, a thread for each connection.
//!
//! Only a session whose turn it is may open connections. A sender is paced to the server's largest rate.

mod look;
mod places;
mod ports;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use io::{Interest, IoError, Waiter};
use probe::{Key, Limits, SessionId, client_of};
use socket2::SockRef;
use units::Duration;

pub(crate) use self::look::delay_max;
use self::look::{Notes, SynAcks};
use self::places::{PlaceId, Places};
use self::ports::Ports;
use crate::tcp_side::{TcpSide, fresh, receive, send};
use crate::tcp_socket::{
    TIMEOUT, abort, bound_window, fill_by, listen, set_congestion_control, wait_at_most,
};
use probe::order::{Answer, ORDER_LEN, Order, What};

/// Longest time that a client may take to say what it wants, all of it.
pub(crate) const ORDER_PATIENCE: Duration = Duration::from_secs(10);
/// Longest silence that is waited for.
const SILENCE_ASKED_MAX: Duration = Duration::from_secs(3 * 3_600);
/// Reports kept.
const REPORTS_MAX: usize = 128;
/// Time to wait for a report that is not there yet.
const REPORT_PATIENCE: std::time::Duration = std::time::Duration::from_secs(8);
/// Longest silence of a sender.
const SILENCE_MAX: Duration = Duration::from_secs(8);
const TURN: Duration = Duration::from_millis(200);
/// Beginning of an order within HTTP.
const HTTP: &[u8; 4] = b"GET ";

#[derive(Default)]
struct State {
    /// True for those whose turn it is; bytes that their clients may still move.
    sessions: BTreeMap<SessionId, (bool, u64)>,
    /// Bytes moved that nobody has heard of yet.
    volumes: BTreeMap<SessionId, u64>,
    reports: BTreeMap<(SessionId, u32), TcpSide>,
    places: Places,
    /// Notes for `probe middlebox`.
    notes: Notes,
    syn_acks: SynAcks,
}

struct Shared {
    state: Mutex<State>,
    reported: Condvar,
    is_over: AtomicBool,
    key: Option<Key>,
    limits: Limits,
    /// Ports on which the server listens.
    ports: Vec<u16>,
    order_patience: Duration,
}

impl Shared {
    /// Notes that a session has moved more bytes; true when its client may move no more.
    fn charge(&self, session: SessionId, bytes: u64) -> bool {
        let mut state = self.state();
        *state.volumes.entry(session).or_insert(0) += bytes;
        // What the server has not heard of yet counts too.
        let pending = state.volumes.get(&session).copied().unwrap_or(0);
        state.sessions.get(&session).is_none_or(|(_, left)| *left <= pending)
    }

    /// True while the server goes on, and the order's session is there.
    fn is_wanted(&self, order: &Order) -> bool {
        !self.is_over.load(Ordering::SeqCst) && self.state().sessions.contains_key(&order.session)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens until it is dropped.
pub(crate) struct TcpServer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    ports: Ports,
}

impl TcpServer {
    /// Listens at `at`, and at `wanted` ports of the same address where it can.
    pub(crate) fn start(
        at: SocketAddr,
        wanted: &[u16],
        key: Option<Key>,
        limits: Limits,
        order_patience: Duration,
    ) -> Result<Self, IoError> {
        let main = listen(at)?;
        let (ports, others) = Ports::open(at, wanted);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            reported: Condvar::new(),
            is_over: AtomicBool::new(false),
            key,
            limits,
            ports: ports.numbers(),
            order_patience,
        });
        let mut server = Self { shared, threads: Vec::new(), ports };
        for listener in std::iter::once(main).chain(others) {
            // What an old kernel does not keep is not reported.
            let _ = io::save_syn(&listener);
            let waiter = Waiter::new(Duration::ZERO)?;
            waiter.add(&listener, Interest::Read, 0)?;
            let own = Arc::clone(&server.shared);
            server.threads.push(std::thread::spawn(move || accept(&listener, waiter, &own)));
        }
        server.watch_syn_acks();
        Ok(server)
    }

    /// Its ports beside the main one, for people.
    pub(crate) fn words(&self) -> Option<String> {
        self.ports.words()
    }

    /// These sessions are there.
    pub(crate) fn allow(&self, sessions: impl Iterator<Item = (SessionId, bool, u64)>) {
        let mut state = self.shared.state();
        state.sessions.clear();
        state.sessions.extend(sessions.map(|(id, is_turn, left)| (id, (is_turn, left))));
        let State { sessions, notes, .. } = &mut *state;
        notes.retain(|session, _| sessions.contains_key(session));
    }

    /// Bytes that sessions have moved since the last call.
    pub(crate) fn take_volumes(&self) -> BTreeMap<SessionId, u64> {
        std::mem::take(&mut self.shared.state().volumes)
    }
}

impl Drop for TcpServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, mut waiter: Waiter, shared: &Arc<Shared>) {
    // Who sends single packets at their time goes first; these threads send what the kernel takes.
    let _ = io::sched::set_ordinary_priority();
    // Waits for nothing but time; made while there are descriptors.
    let mut rest = Waiter::new(Duration::ZERO).ok();
    while !shared.is_over.load(Ordering::SeqCst) {
        let deadline = io::Clock::now() + TURN;
        if waiter.wait(Some(deadline)).is_ok_and(<[_]>::is_empty) {
            continue;
        }
        let Ok((stream, from)) = listener.accept() else {
            // Where no descriptor is left it would fail again at once.
            let _ = rest.as_mut().map(|rest| rest.wait(Some(deadline)).map(<[_]>::len));
            continue;
        };
        let stream = Arc::new(stream);
        let Some(place) = shared.state().places.enter(client_of(from), &stream) else {
            // Best effort: who comes in vain sees the connection end at least.
            let _ = (&*stream).write(&[Answer::Busy as u8]);
            continue;
        };
        let own = Arc::clone(shared);
        std::thread::spawn(move || {
            // A connection that fails is its client's to tell.
            let _ = serve(&stream, place, &own);
            own.state().places.leave(place);
        });
    }
}

fn serve(stream: &TcpStream, place: PlaceId, shared: &Shared) -> Result<(), IoError> {
    wait_at_most(stream, TIMEOUT)?;
    let syn = io::saved_syn(stream);
    let mut bytes = [0; ORDER_LEN];
    let mut talk = stream;
    let (begin, rest) = bytes.split_at_mut(HTTP.len());
    let deadline = io::Clock::now() + shared.order_patience;
    if !fill_by(stream, begin, deadline) {
        return Ok(());
    }
    if *begin == *HTTP {
        let Some((bytes, request)) = look::request(stream, HTTP, deadline) else { return Ok(()) };
        match permitted(&bytes, place, shared) {
            Ok(order) if order.what.is_within_http() => {
                return look::serve(stream, &order, (syn, &request), shared);
            }
            Ok(_) => look::refuse(stream, Answer::Malformed),
            Err(answer) => look::refuse(stream, answer),
        }
        return Ok(());
    }
    if !fill_by(stream, rest, deadline) {
        return Ok(());
    }
    wait_at_most(stream, TIMEOUT)?;
    let order = match permitted(&bytes, place, shared) {
        Ok(order) => order,
        Err(answer) => {
            let _ = talk.write_all(&[answer as u8]);
            return Ok(());
        }
    };
    match order.what {
        What::Report => return report(stream, &order, shared),
        What::Idle => return idle(stream, &order, shared),
        What::Down | What::Up => {}
        What::Look | What::Split | What::Fill => {
            let _ = talk.write_all(&[Answer::Malformed as u8]);
            return Ok(());
        }
    }
    if !order.congestion_control.is_empty() && !set_congestion_control(stream, &order.congestion_control) {
        let _ = talk.write_all(&[Answer::NoCongestionControl as u8]);
        return Ok(());
    }
    io::set_max_pacing_rate(&stream.as_fd(), shared.limits.rate_max)?;
    if order.window > 0 {
        bound_window(&SockRef::from(stream), order.window)?;
    }
    let side = fresh(stream)?;
    if talk.write_all(&[Answer::Yes as u8]).is_err() {
        return Ok(());
    }
    let _ = stream.set_nonblocking(true);
    let mut told = 0;
    let mut is_over = |moved: u64| {
        let is_used_up = shared.charge(order.session, moved - told);
        told = moved;
        is_used_up || shared.is_over.load(Ordering::SeqCst)
    };
    let side = if order.what == What::Down {
        let side = send(stream, side, order.length, &mut is_over)?;
        abort(stream);
        side
    } else {
        receive(stream, side, order.length, SILENCE_MAX, &mut is_over)?
    };
    let mut state = shared.state();
    if state.reports.len() >= REPORTS_MAX {
        state.reports.pop_first();
    }
    state.reports.insert((order.session, order.run), side);
    shared.reported.notify_all();
    Ok(())
}

/// Is silent, then says one byte. Who hangs up before has heard enough, and whose session ends wants no more.
fn idle(mut stream: &TcpStream, order: &Order, shared: &Shared) -> Result<(), IoError> {
    if stream.write_all(&[Answer::Yes as u8]).is_err() {
        return Ok(());
    }
    let mut waiter = Waiter::new(Duration::ZERO)?;
    waiter.add(stream, Interest::Read, 0)?;
    let end = io::Clock::now() + order.length;
    while io::Clock::now() < end {
        let turn = end.min(io::Clock::now() + TURN);
        if !waiter.wait(Some(turn))?.is_empty() || !shared.is_wanted(order) {
            return Ok(());
        }
    }
    // The kernel repeats it for a while where it is not acknowledged.
    let _ = stream.write_all(b"!");
    waiter.wait(Some(end + SILENCE_MAX))?;
    Ok(())
}

/// Reads an order; one that may be carried out keeps its connection's place.
fn permitted(bytes: &[u8; ORDER_LEN], place: PlaceId, shared: &Shared) -> Result<Order, Answer> {
    let order = Order::decode(bytes, shared.key.as_ref())?;
    let mut state = shared.state();
    let (is_turn, left) = *state.sessions.get(&order.session).ok_or(Answer::NoSession)?;
    let longest = match order.what {
        What::Idle => SILENCE_ASKED_MAX,
        what if what.is_within_http() => look::delay_max(shared.limits.time_max),
        _ => shared.limits.time_max,
    };
    if matches!(order.what, What::Down | What::Up) {
        if !is_turn {
            return Err(Answer::NoSession);
        }
        if left == 0 {
            return Err(Answer::Volume);
        }
    }
    if order.length > longest {
        return Err(Answer::TooLong);
    }
    state.places.on_order(place);
    Ok(order)
}

fn report(mut stream: &TcpStream, order: &Order, shared: &Shared) -> Result<(), IoError> {
    let key = (order.session, order.run);
    let lacks = |state: &mut State| !state.reports.contains_key(&key);
    let waited = shared.reported.wait_timeout_while(shared.state(), REPORT_PATIENCE, lacks);
    let side = waited.unwrap_or_else(PoisonError::into_inner).0.reports.remove(&key);
    let answer = side.and_then(|side| serde_json::to_vec(&side).ok());
    let _ = match answer {
        Some(json) => stream.write_all(&[Answer::Yes as u8]).and_then(|()| stream.write_all(&json)),
        None => stream.write_all(&[Answer::NoSession as u8]),
    };
    Ok(())
}

#[cfg(test)]
mod tests;
