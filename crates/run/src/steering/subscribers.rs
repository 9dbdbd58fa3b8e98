//! [`SubscriberRoutes`]: where rules steer, all that is sent to some subscribers is led into the wired device by a route
//! for each, in a table of their own.
//!
//! The packet loop does not wait for the kernel's routing tables, whose lock others may have: a thread of its own does.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use io::IoError;
use io::netlink::{Cidr, InterfaceIndex, Netlink, Route, Table};

/// Orders that wait; beyond it they are forgotten, and given again.
const WAITING_MAX: usize = 1_024;

/// Subscribers that are led here at a time: others' packets pass in the kernel.
const ROUTES_MAX: usize = 16_384;

/// Routes of subscribers. They go with the device that they lead into.
#[derive(Debug)]
pub(crate) struct SubscriberRoutes {
    orders: SyncSender<(IpAddr, bool)>,
}

impl SubscriberRoutes {
    /// Keeps routes in `table` into `device`, in the calling thread's namespace; an IPv6 subscriber is a prefix of so many
    /// bits.
    pub fn keep(table: Table, device: InterfaceIndex, ipv6_prefix_len: u8) -> Result<Self, IoError> {
        let netlink = Netlink::open()?;
        let (orders, waiting) = sync_channel(WAITING_MAX);
        let keeper = Keeper { netlink, table, device, ipv6_prefix_len, led: BTreeSet::new() };
        thread::Builder::new()
            .name("routes".to_owned())
            .spawn(move || keeper.work(&waiting))
            .map_err(|error| IoError::system("start a thread", error))?;
        Ok(Self { orders })
    }

    /// Has everything to a subscriber come here from about now on, or no longer.
    pub fn lead(&self, subscriber: IpAddr, is_wanted: bool) {
        // Forgotten orders are given again: with the next packet.
        self.orders.try_send((subscriber, is_wanted)).ok();
    }
}

struct Keeper {
    netlink: Netlink,
    table: Table,
    device: InterfaceIndex,
    ipv6_prefix_len: u8,
    led: BTreeSet<IpAddr>,
}

impl Keeper {
    fn work(mut self, orders: &Receiver<(IpAddr, bool)>) {
        while let Ok((subscriber, is_wanted)) = orders.recv() {
            let prefix_len = if subscriber.is_ipv4() { 32 } else { self.ipv6_prefix_len };
            let route = Route {
                destination: Cidr::new(subscriber, prefix_len),
                gateway: None,
                device: Some(self.device),
                table: self.table,
            };
            if is_wanted && self.led.len() < ROUTES_MAX {
                let is_there = match self.netlink.add_route(&route) {
                    Ok(()) => true,
                    Err(error) => error.is_already_there(),
                };
                if is_there {
                    self.led.insert(subscriber);
                }
            } else if !is_wanted {
                // One that is not there leads nothing here.
                drop(self.netlink.delete_route(&route));
                self.led.remove(&subscriber);
            }
        }
    }
}
