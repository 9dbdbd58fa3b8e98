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

/// Orders that wait; beyond it they are forgotten.
const WAITING_MAX: usize = 1_024;

/// Subscribers that are led here at a time: others' packets pass in the kernel.
const ROUTES_MAX: usize = 16_384;

/// Routes of subscribers. They go with the device that they lead into.
#[derive(Debug)]
pub(crate) struct SubscriberRoutes {
    orders: SyncSender<Order>,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    /// Everything to a subscriber is to come here, or no longer.
    Lead(IpAddr, bool),
    /// Something may, or nothing.
    Permit(bool),
}

impl SubscriberRoutes {
    /// Keeps routes in `table` into `device`, in the calling thread's namespace; an IPv6 subscriber is a prefix of so many
    /// bits.
    pub fn keep(table: Table, device: InterfaceIndex, ipv6_prefix_len: u8) -> Result<Self, IoError> {
        let netlink = Netlink::open()?;
        let (orders, waiting) = sync_channel::<Order>(WAITING_MAX);
        let led = BTreeSet::new();
        let keeper = Keeper { netlink, table, device, ipv6_prefix_len, led, is_refused: false };
        thread::Builder::new()
            .name("routes".to_owned())
            .spawn(move || keeper.work(&waiting))
            .map_err(|error| IoError::system("start a thread", error))?;
        Ok(Self { orders })
    }

    /// Has everything to a subscriber come here from about now on, or no longer.
    pub fn lead(&self, subscriber: IpAddr, is_wanted: bool) {
        // One that is forgotten is given again: with the next packet that need not come, or once its flows have rested.
        self.orders.try_send(Order::Lead(subscriber, is_wanted)).ok();
    }

    /// Says whether anything may come here so; if not, nothing does from about now on.
    pub fn permit(&self, is_permitted: bool) {
        // Its thread has ended only with this.
        self.orders.send(Order::Permit(is_permitted)).ok();
    }
}

struct Keeper {
    netlink: Netlink,
    table: Table,
    device: InterfaceIndex,
    ipv6_prefix_len: u8,
    led: BTreeSet<IpAddr>,
    is_refused: bool,
}

impl Keeper {
    fn work(mut self, orders: &Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            match order {
                Order::Lead(subscriber, true) if !self.is_refused && self.led.len() < ROUTES_MAX => {
                    let is_there = match self.netlink.add_route(&self.route(subscriber)) {
                        Ok(()) => true,
                        Err(error) => error.is_already_there(),
                    };
                    if is_there {
                        self.led.insert(subscriber);
                    }
                }
                // One that a process before this one has led here may be there although none may.
                Order::Lead(subscriber, _) => self.leave(subscriber),
                Order::Permit(is_permitted) => {
                    self.is_refused = !is_permitted;
                    if self.is_refused {
                        std::mem::take(&mut self.led)
                            .into_iter()
                            .for_each(|subscriber| self.leave(subscriber));
                    }
                }
            }
        }
    }

    fn leave(&mut self, subscriber: IpAddr) {
        // One that is not there leads nothing here.
        drop(self.netlink.delete_route(&self.route(subscriber)));
        self.led.remove(&subscriber);
    }

    fn route(&self, subscriber: IpAddr) -> Route {
        let prefix_len = if subscriber.is_ipv4() { 32 } else { self.ipv6_prefix_len };
        let destination = Cidr::new(subscriber, prefix_len);
        Route { destination, gateway: None, device: Some(self.device), table: self.table }
    }
}
