//! [`Hands`]: changes endpoints on a thread of its own.
//!
//! The kernel answers a removal when no reader can see the endpoint any more (`synchronize_rcu`), which takes
//! up to a second on a busy machine. Whoever waited for it would hear no answers to probes.

use std::cell::Cell;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use io::netlink::{EndpointFlags, MptcpEndpoint, PathManager, SocketDiagnosis};
use multipath::PathId;

use crate::UplinkError;
use crate::error::Context;

/// Something to be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Address, interface, full mesh, backup.
    Add(IpAddr, u32, bool, bool),
    Remove(IpAddr),
    SetBackup(IpAddr, bool),
}

/// Outcome of an order: the path, the order, and the message.
pub(crate) type Done = (PathId, Order, Result<String, String>);

/// The thread, and what it is told.
#[derive(Debug)]
pub(crate) struct Hands {
    orders: Option<Sender<(PathId, Order)>>,
    done: Receiver<Done>,
    /// Orders of which it is not known what became of them.
    pending: Cell<usize>,
    /// Readable when something is done.
    pub wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Hands {
    pub fn start() -> Result<Self, UplinkError> {
        let manager = PathManager::open()?;
        let (orders, taken) = channel::<(PathId, Order)>();
        let (tell, done) = channel();
        let (wake, waker) = UnixStream::pair().doing(|| "make a socket pair".to_owned())?;
        for end in [&wake, &waker] {
            end.set_nonblocking(true).doing(|| "make a socket non-blocking".to_owned())?;
        }
        let thread = std::thread::Builder::new()
            .name("endpoints".to_owned())
            .spawn(move || {
                for (path, order) in taken {
                    let result = carry_out(&manager, order).map_err(|error| error.to_string());
                    if tell.send((path, order, result)).is_err() {
                        return;
                    }
                    // A full socket wakes as well.
                    let _ = std::io::Write::write(&mut &waker, &[1]);
                }
            })
            .doing(|| "start a thread".to_owned())?;
        Ok(Self { orders: Some(orders), done, pending: Cell::new(0), wake, thread: Some(thread) })
    }

    /// Has something done, after what was asked for before.
    pub fn ask(&self, path: PathId, order: Order) {
        if let Some(orders) = &self.orders {
            // The thread ends only with this value.
            let _ = orders.send((path, order));
            self.pending.set(self.pending.get() + 1);
        }
    }

    /// Orders done since the last call.
    pub fn take(&self) -> Vec<Done> {
        let mut sink = [0; 64];
        while matches!(std::io::Read::read(&mut &self.wake, &mut sink), Ok(n) if n > 0) {}
        let done: Vec<Done> = self.done.try_iter().collect();
        self.pending.set(self.pending.get().saturating_sub(done.len()));
        done
    }

    /// True when nothing waits or is being done, and all that was done was taken.
    pub fn is_idle(&self) -> bool {
        self.pending.get() == 0
    }

    /// Waits until all is done.
    pub fn finish(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was printed.
            let _ = thread.join();
        }
    }
}

fn find(manager: &PathManager, address: IpAddr) -> Result<Option<MptcpEndpoint>, io::IoError> {
    let all = manager.endpoints()?;
    Ok(all.into_iter().find(|e| e.address == address && !e.flags.contains(EndpointFlags::IMPLICIT)))
}

/// Ends the subflows of an address that this host has closed and the peer has not.
///
/// They are of the time before the path died. The peer learned over another path that they are closed, and
/// has sent their data again there. But a server keeps its initial subflow: it goes on sending old data into
/// it, which the path that has returned must carry, and its retransmission timer, in back-off, counts as the
/// connection's own (`mptcp_timeout_from_subflow`). Data that is lost between paths is then sent again as late
/// as that timer says, up to two minutes. A RST ends it, and can arrive only when the path carries again.
///
/// A connection that is itself closing is left alone: it has no other subflow that is open.
fn end_what_closes(address: IpAddr) {
    // A kernel that cannot do this has what it had before.
    let Ok(diagnosis) = SocketDiagnosis::open() else { return };
    let Ok(subflows) = diagnosis.subflows() else { return };
    let lives_on = |token: u32| subflows.iter().any(|s| s.token == token && s.is_established);
    for subflow in subflows.iter().filter(|s| s.local.ip() == address && s.is_closing && lives_on(s.token)) {
        let _ = diagnosis.destroy(&subflow.identity);
    }
}

fn carry_out(manager: &PathManager, order: Order) -> Result<String, io::IoError> {
    let backup = |is_backup: bool| if is_backup { EndpointFlags::BACKUP } else { EndpointFlags::default() };
    match order {
        Order::Add(address, interface, full_mesh, is_backup) => {
            end_what_closes(address);
            let mesh = if full_mesh { EndpointFlags::FULL_MESH } else { EndpointFlags::default() };
            let flags = EndpointFlags::SUBFLOW.with(mesh).with(backup(is_backup));
            let endpoint = MptcpEndpoint { id: 0, address, port: 0, interface: Some(interface), flags };
            match manager.add(&endpoint) {
                Ok(()) if is_backup => Ok(format!("endpoint {address} added as backup")),
                Ok(()) => Ok(format!("endpoint {address} added")),
                Err(_) if find(manager, address)?.is_some() => {
                    carry_out(manager, Order::SetBackup(address, is_backup))?;
                    Ok(format!("endpoint {address} is there already"))
                }
                Err(error) => Err(error),
            }
        }
        Order::Remove(address) => {
            if let Some(endpoint) = find(manager, address)? {
                manager.delete(&endpoint)?;
            }
            Ok(format!("endpoint {address} removed"))
        }
        Order::SetBackup(address, is_backup) => {
            if let Some(mut endpoint) = find(manager, address)? {
                endpoint.flags = endpoint.flags.without(EndpointFlags::BACKUP).with(backup(is_backup));
                manager.set_flags(&endpoint)?;
            }
            let what = if is_backup { "backup" } else { "no longer backup" };
            Ok(format!("endpoint {address}: {what}"))
        }
    }
}
