//! A conventional split proxy: it ends the client's connection, and has one of its own to the server.

use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};

use io::Namespace;

use super::world::{PORT, proxy_of, server_of};
use crate::LabError;
use crate::listener::Listener;

/// Starts it in a box, for a number of subscribers; it ends when dropped.
pub(crate) fn start(namespace: &Namespace, subscribers: usize) -> Result<Listener, LabError> {
    let anywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
    Listener::start(namespace, anywhere, move |client, _| {
        let Ok(called) = client.local_addr() else { return };
        let number = (0..subscribers).find(|number| proxy_of(*number) == called);
        let Some(server) = number.and_then(|number| TcpStream::connect(server_of(number)).ok()) else {
            return;
        };
        // Each way ends for itself; an error ends it too, as the other end sees then.
        let relay = |from: &TcpStream, to: &TcpStream| {
            let _ = std::io::copy(&mut &*from, &mut &*to);
            let _ = to.shutdown(Shutdown::Write);
        };
        std::thread::scope(|scope| {
            scope.spawn(|| relay(&client, &server));
            relay(&server, &client);
        });
    })
}
