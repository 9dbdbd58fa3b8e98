//! I-TCP's scheme (Bakre and Badrinath, ICDCS 1995): split proxies that hand the state of their connections on.
//!
//! ```text
//!   client ── connection ── proxy at the old station ── connection ── server
//!                                 │ freeze, image of both
//!                                 ▼
//!   client ── the same ──── proxy at the new station ── the same ──── server
//! ```
//!
//! The state alone moves, with the proxy's address: what the old proxy holds stays there, and the connections go on
//! where the receiving host is. It is for the sender to send again what is missing.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use io::{Host, Namespace, TcpImage};

use super::boxes::Said;
use super::world::{PORT, handover_address, proxy_of, server_of};
use crate::LabError;
use crate::listener::{Listener, is_time_out};

/// Interval of the checks of a relay whether it is to stop.
const TURN: std::time::Duration = std::time::Duration::from_millis(5);
const BLOCK: usize = 1 << 16;
/// Version of the images on the wire.
const VERSION: u16 = 1;

/// The proxies of both stations; ended when dropped.
pub(crate) struct Proxies {
    namespaces: [Namespace; 2],
    sessions: [Sessions; 2],
    _listeners: Vec<Listener>,
}

/// Sessions of a station's proxy, by subscriber.
type Sessions = Arc<Mutex<BTreeMap<usize, Session>>>;

/// A subscriber's connection and its other half.
struct Session {
    client: Arc<TcpStream>,
    server: Arc<TcpStream>,
    stop: Arc<AtomicBool>,
    /// To the server, and to the client; each gives what it has read and not written when it ends.
    relays: [JoinHandle<u32>; 2],
}

/// A session as it goes from station to station.
#[derive(stored::Stored)]
struct Image {
    number: u32,
    client: TcpImage,
    server: TcpImage,
}

impl Proxies {
    /// Starts both, for a number of subscribers, all of them at the first station. `control` as for the namespaces.
    pub fn start(namespaces: &[Host; 2], subscribers: usize, control: &str) -> Result<Self, LabError> {
        let opened = || -> Result<[Namespace; 2], LabError> {
            Ok([Namespace::open(namespaces[0].name())?, Namespace::open(namespaces[1].name())?])
        };
        let sessions = [Sessions::default(), Sessions::default()];
        let all = |lines: &dyn Fn(usize) -> String| (0..subscribers).map(lines).collect::<String>();
        // A proxy calls the server under its own address, which moves.
        let calls = |n: usize| {
            format!("route add {} via 10.3.0.1 src {} {control}\n", server_of(n).ip(), proxy_of(n).ip())
        };
        namespaces[0].ip(&all(&calls))?;
        namespaces[1].ip(&all(&leave))?;
        let anywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
        let mut listeners = Vec::new();
        let new = Arc::clone(&sessions[0]);
        listeners.push(Listener::start(&namespaces[0], anywhere, move |client, _| {
            let Ok(called) = client.local_addr() else { return };
            let Some(number) = (0..subscribers).find(|number| proxy_of(*number) == called) else { return };
            if let Ok(server) = TcpStream::connect(server_of(number)) {
                keep(&new, number, Session::start(client, server));
            }
        })?);
        for (station, namespace) in opened()?.into_iter().enumerate() {
            let (there, own) = (Arc::clone(&sessions[station]), handover_address(station));
            listeners.push(Listener::start(&namespaces[station], own, move |mut from, _| {
                let said = arrive(&namespace, &there, &mut from).err().unwrap_or_default();
                // Who asked hears of it by the end of the connection.
                let _ = from.write_all(said.as_bytes());
            })?);
        }
        Ok(Self { namespaces: opened()?, sessions, _listeners: listeners })
    }

    /// Moves the state of a subscriber's connections from a station to the other, and waits until they are there.
    ///
    /// # Errors
    /// The failure: the connections are gone then.
    pub fn hand_over(&self, number: usize, from: usize) -> Result<Said, String> {
        let session = self.sessions[from].lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        let Some(session) = session else { return Ok(Said::default()) };
        // What comes from now on finds nobody, and nobody answers it.
        self.namespaces[from].ip(&leave(number)).map_err(text)?;
        let Some((image, left_bytes)) = session.freeze(number)? else { return Ok(Said::default()) };
        let bytes = stored::to_bytes(&image);
        let mut there = self.namespaces[from]
            .run(|| TcpStream::connect(handover_address(1 - from)))
            .map_err(text)?
            .map_err(text)?;
        there.write_all(&bytes).and_then(|()| there.shutdown(Shutdown::Write)).map_err(text)?;
        let mut problem = String::new();
        there.read_to_string(&mut problem).map_err(text)?;
        if problem.is_empty() { Ok(Said { flows: 1, left_bytes, ..Said::default() }) } else { Err(problem) }
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        for sessions in &self.sessions {
            let all = std::mem::take(&mut *sessions.lock().unwrap_or_else(PoisonError::into_inner));
            all.into_values().for_each(|session| drop(session.stop()));
        }
    }
}

/// The lines that take a proxy's address from a box: what comes for it is dropped.
fn leave(number: usize) -> String {
    let own = proxy_of(number).ip();
    format!("route add blackhole {own}/32\naddr del {own}/32 dev lo\n")
}

/// The lines that give it one.
fn come(number: usize) -> String {
    let own = proxy_of(number).ip();
    format!("addr add {own}/32 dev lo\nroute del blackhole {own}/32\n")
}

fn keep(sessions: &Sessions, number: usize, session: Session) {
    sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(number, session);
}

/// Reads an image, and goes on with what it is of.
fn arrive(namespace: &Namespace, sessions: &Sessions, from: &mut TcpStream) -> Result<(), String> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).map_err(text)?;
    let image: Image = stored::from_bytes(VERSION, &bytes).map_err(text)?;
    let number = image.number as usize;
    namespace.ip(&come(number)).map_err(text)?;
    let [client, server] = [image.client.put().map_err(text)?, image.server.put().map_err(text)?];
    keep(sessions, number, Session::start(client, server));
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Session {
    fn start(client: TcpStream, server: TcpStream) -> Self {
        let (client, server, stop) = (Arc::new(client), Arc::new(server), Arc::new(AtomicBool::new(false)));
        let relay = |from: &Arc<TcpStream>, to: &Arc<TcpStream>| {
            let (from, to, stop) = (Arc::clone(from), Arc::clone(to), Arc::clone(&stop));
            std::thread::spawn(move || relay(&from, &to, &stop))
        };
        let relays = [relay(&client, &server), relay(&server, &client)];
        Self { client, server, stop, relays }
    }

    /// Ends its relays; gives both connections, and what each relay had read and not written.
    fn stop(self) -> (Arc<TcpStream>, Arc<TcpStream>, [u32; 2]) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic of theirs is on standard error.
        let between = self.relays.map(|relay| relay.join().unwrap_or(0));
        (self.client, self.server, between)
    }

    /// Its state, from where the receiving hosts are on, and how many bytes stay behind; none when it is over. Its
    /// sockets are gone without a word.
    fn freeze(self, number: usize) -> Result<Option<(Image, u64)>, String> {
        let (client, server, [up, down]) = self.stop();
        if client.peer_addr().and(server.peer_addr()).is_err() {
            return Ok(None);
        }
        let [client, server] =
            [TcpImage::take(&client).map_err(text)?, TcpImage::take(&server).map_err(text)?];
        let [down, up] = [(server, down, client), (client, up, server)]
            .map(|(from, between, to)| from.unread + between + to.unacknowledged);
        let image = Image { number: number as u32, client: client.before(up), server: server.before(down) };
        Ok(Some((image, u64::from(down) + u64::from(up))))
    }
}

/// Writes to `to` what comes from `from` until one of them ends, or it is to stop.
fn relay(mut from: &TcpStream, mut to: &TcpStream, stop: &AtomicBool) -> u32 {
    if from.set_read_timeout(Some(TURN)).and(to.set_write_timeout(Some(TURN))).is_err() {
        return 0;
    }
    let mut block = vec![0; BLOCK];
    while !stop.load(Ordering::Relaxed) {
        let mut left = match from.read(&mut block) {
            Ok(0) => break,
            Ok(len) => &block[..len],
            Err(error) if is_time_out(&error) => continue,
            Err(_) => break,
        };
        while !left.is_empty() {
            match to.write(left) {
                Ok(len) => left = &left[len..],
                Err(error) if is_time_out(&error) && stop.load(Ordering::Relaxed) => {
                    return left.len() as u32;
                }
                Err(error) if is_time_out(&error) => {}
                Err(_) => return 0,
            }
        }
    }
    if !stop.load(Ordering::Relaxed) {
        // Each way ends for itself; an error ends it too, as the other end sees then.
        let _ = to.shutdown(Shutdown::Write);
    }
    0
}
