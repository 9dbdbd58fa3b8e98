//! [`Ports`]: the TCP ports of a server beside its main one.

use std::net::{SocketAddr, TcpListener};

use probe::{Port, PortState};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::tcp_socket::listen;

/// `EADDRINUSE`.
const TAKEN: i32 = 98;

/// The ports, and those that were wanted and are not.
#[derive(Debug)]
pub(super) struct Ports {
    /// The main one, those that were wanted, and those chosen at random.
    known: Vec<Port>,
    /// Bound, and not listening: who connects to it is refused, and nobody else can take it.
    _refused: Option<Socket>,
}

impl Ports {
    /// Listens at `wanted` ports of `main`'s address, and at one at random where any are wanted.
    pub(super) fn open(main: SocketAddr, wanted: &[u16]) -> (Self, Vec<TcpListener>) {
        let mut known = vec![Port { number: main.port(), state: PortState::Open }];
        let mut listeners = Vec::new();
        let random = (!wanted.is_empty()).then_some(0);
        let mut wanted: Vec<u16> = wanted.iter().copied().filter(|port| *port != main.port()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        for number in wanted.into_iter().chain(random) {
            match listen(SocketAddr::new(main.ip(), number)) {
                Ok(listener) => {
                    let own = listener.local_addr().map_or(number, |address| address.port());
                    let state = if number == 0 { PortState::Random } else { PortState::Open };
                    known.push(Port { number: own, state });
                    listeners.push(listener);
                }
                Err(error) => known.push(Port { number, state: lack(error.raw_os_error()) }),
            }
        }
        let refused = hold(SocketAddr::new(main.ip(), 0)).ok();
        let number = refused.as_ref().and_then(|socket| socket.local_addr().ok()?.as_socket());
        known.extend(number.map(|at| Port { number: at.port(), state: PortState::Refused }));
        (Self { known, _refused: refused }, listeners)
    }

    /// Ports on which the server listens.
    pub(super) fn numbers(&self) -> Vec<u16> {
        let is_open = |port: &&Port| matches!(port.state, PortState::Open | PortState::Random);
        self.known.iter().filter(is_open).map(|port| port.number).collect()
    }

    /// Ports that are there, and those that were wanted and are not, for people.
    pub(super) fn words(&self) -> Option<String> {
        let of = |state: PortState, word: &str| {
            let own = self.known.iter().filter(move |port| port.state == state);
            let numbers: Vec<String> = own.map(|port| port.number.to_string()).collect();
            (!numbers.is_empty()).then(|| format!("{word}{}", numbers.join(", ")))
        };
        if self.known.iter().all(|port| matches!(port.state, PortState::Refused | PortState::Open))
            && self.numbers().len() < 2
        {
            return None;
        }
        let parts = [
            of(PortState::Open, "TCP ports "),
            of(PortState::Random, "at random "),
            of(PortState::Occupied, "untested, because another program has them: "),
            of(PortState::NotPermitted, "untested, because only root may listen there: "),
        ];
        Some(parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }

    /// The server's own ports, whatever a client asks for: who else has ports of this machine is nothing to
    /// tell a stranger, not even of those that were wanted.
    pub(super) fn own(&self) -> Vec<Port> {
        let is_own =
            |port: &&Port| matches!(port.state, PortState::Open | PortState::Random | PortState::Refused);
        self.known.iter().filter(is_own).copied().collect()
    }
}

fn lack(error: Option<i32>) -> PortState {
    if error == Some(TAKEN) { PortState::Occupied } else { PortState::NotPermitted }
}

/// Takes a port without listening.
fn hold(at: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    if at.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.bind(&SockAddr::from(at))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_its_state() {
        let main = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = taken.local_addr().unwrap().port();
        let (ports, listeners) = Ports::open(main, &[main.port(), number, number]);
        assert_eq!(listeners.len(), 1, "the main one is not opened twice, the taken one not at all");
        let all = ports.own();
        let of = |number: u16| all.iter().find(|port| port.number == number).map(|port| port.state);
        assert_eq!(of(main.port()), Some(PortState::Open));
        let random = all.iter().find(|port| port.state == PortState::Random).unwrap();
        assert_eq!(listeners[0].local_addr().unwrap().port(), random.number);
        let refused = all.iter().find(|port| port.state == PortState::Refused).unwrap();
        let error = std::net::TcpStream::connect(("127.0.0.1", refused.number)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        assert!(ports.words().unwrap().contains("another program"), "{:?}", ports.words());
        assert_eq!(Ports::open(main, &[]).0.words(), None);
    }

    #[test]
    fn ports_of_others_are_not_named() {
        let main = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap().port();
        let (ports, listeners) = Ports::open(main, &[taken]);
        let random = listeners[0].local_addr().unwrap().port();
        let refused = ports.own().last().unwrap().number;
        let numbers: Vec<u16> = ports.own().iter().map(|port| port.number).collect();
        assert_eq!(
            numbers,
            [main.port(), random, refused],
            "its own ports, and nothing of the one it wanted"
        );
    }
}
