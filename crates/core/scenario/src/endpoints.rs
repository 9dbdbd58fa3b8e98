//! The client, accelerator and workload sections.

use serde::{Deserialize, Serialize};
use tcp::WindowPolicy;
use units::{Bytes, Duration, Rate};

use crate::beside::Beside;
use crate::choice::Controller;
use crate::family::Family;
use crate::merge::{checked, layered};
use crate::quantity::Quantity;
use crate::server::{check_memory, plain_memory};

layered! {
    /// The device behind the radio link.
    checked pub struct Client {
        /// `net.ipv4.tcp_rmem` of the client, three numbers of bytes. Default: the kernel's.
        pub tcp_rmem: String,
        /// The receive window the client is to advertise, instead of `tcp_rmem`.
        pub window: Quantity<Bytes>,
        /// The receive window is [DR]'s, up to what `tcp_rmem` or `window` allow: `paper`, or
        /// `additions` with this project's. In the lab `cellerator drwa attach` does it.
        pub drwa: DrwaVariant,
        /// More arguments for `cellerator drwa attach`, as they are; the lab alone has that.
        pub drwa_arguments: Vec<String>,
        /// The hosts agree on SACK. Default: yes.
        pub sack: bool,
        /// The hosts agree on timestamps. Default: yes.
        pub timestamps: bool,
        /// Time that the client's program takes to read what has arrived. Default: none. In the lab
        /// a download waits for that time after its kernel has woken the program.
        pub reads_after: Quantity<Duration>,
        /// Treatment by its kernel of segments that end beyond the window: `when-empty`, `always`.
        /// In the lab it is the kernel's.
        pub takes_beyond: TakesBeyond,
        /// The largest window in the client's ACKs lies in this range, or the case's figures are doubtful.
        pub expected_window: WindowRange,
    }
}

/// Treatment by a client of segments that begin in its window and end beyond it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TakesBeyond {
    /// Takes them while nothing waits to be read: Linux from 6.17 on.
    WhenEmpty,
    /// Takes them: Linux before.
    Always,
}

/// Way in which a client computes its own receive window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DrwaVariant {
    /// The paper's algorithm alone.
    Paper,
    /// DRWA with this project's additions.
    Additions,
}

/// A range of window sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowRange {
    /// Smallest.
    pub min: Quantity<Bytes>,
    /// Largest.
    pub max: Quantity<Bytes>,
}

impl Client {
    /// Checks what serde cannot see: keys that exclude each other, three numbers.
    fn check(&self) -> Result<(), String> {
        if self.tcp_rmem.is_some() && self.window.is_some() {
            return Err("`tcp_rmem` and `window` exclude each other: give one of them".to_owned());
        }
        check_memory("tcp_rmem", self.tcp_rmem.as_deref())
    }

    /// This section where it says something, `base` elsewhere; either window key replaces both of
    /// the base's, and what the base expects of them.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let mut base = base.clone();
        if self.tcp_rmem.is_some() || self.window.is_some() {
            (base.tcp_rmem, base.window, base.expected_window) = (None, None, None);
        }
        self.layered_over(&base)
    }

    /// The first key that only the lab has.
    #[must_use]
    pub fn lab_only(&self) -> Option<&'static str> {
        self.drwa_arguments.as_ref().map(|_| "drwa_arguments")
    }

    /// The value for `net.ipv4.tcp_rmem`, if the scenario says one.
    ///
    /// `window` becomes the memory of which Linux advertises that much: measured, 30,400 bytes of buffer
    /// give 17,664 bytes of window, so the factor is 1.72.
    #[must_use]
    pub fn rmem(&self) -> Option<String> {
        if let Some(text) = &self.tcp_rmem {
            return Some(plain_memory(text));
        }
        let memory = (self.window?.0.get().saturating_mul(30_400) / 17_664).max(4_096);
        Some(format!("4096 {memory} {memory}"))
    }
}

layered! {
    /// The accelerator between the two links.
    pub struct Accelerator {
        /// Whether it runs. Default: no.
        pub enabled: bool,
        /// Controller that finds the sending rate. Default: the accelerator's.
        pub controller: Controller,
        /// The rate of `fixed`.
        pub rate: Quantity<Rate>,
        /// The link's capacity as `rate` is to believe it.
        pub r_cap: Quantity<Rate>,
        /// Policy for the client's window. Default: `honour`.
        pub window_policy: WindowPolicy,
        /// Bytes in flight at most, as time at the current rate. Default: no limit.
        pub in_flight_cap: Quantity<Duration>,
        /// Largest window offered to servers. Default: the accelerator's.
        pub window_max: Quantity<Bytes>,
        /// More arguments for `cellerator run`, as they are.
        pub arguments: Vec<String>,
    }
}

impl Accelerator {
    /// The arguments of `cellerator run` that these settings mean, interfaces apart.
    #[must_use]
    pub fn run_arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut option = |name: &str, value: Option<String>| {
            arguments.extend(value.map(|value| [format!("--{name}"), value]).into_iter().flatten());
        };
        let controller = self.controller.map(Controller::name);
        let policy = self.window_policy.map(|p| match p {
            WindowPolicy::Honour => "honour",
            WindowPolicy::Opportunistic => "opportunistic",
        });
        option("controller", controller.map(str::to_owned));
        option("rate", self.rate.map(|q| q.to_string()));
        option("r-cap", self.r_cap.map(|q| q.to_string()));
        option("window-policy", policy.map(str::to_owned));
        option("in-flight-cap", self.in_flight_cap.map(|q| q.to_string()));
        option("window-max", self.window_max.map(|q| q.to_string()));
        arguments.extend(self.arguments.iter().flatten().cloned());
        arguments
    }
}

/// Kind of transfer, with the direction of its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// HTTP GET: server to client.
    #[default]
    Download,
    /// HTTP PUT: client to server.
    Upload,
    /// Requests and responses in turn over one connection.
    Request,
    /// UDP datagrams from server to client at `write_rate`, each acknowledged by the client.
    Udp,
}

/// A host that aborts its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// `server` or `client`.
    pub by: ConnectionEnd,
    /// Bytes of the transfer that have reached the client (of an upload: the server) by then.
    pub after: Quantity<Bytes>,
}

/// An end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionEnd {
    /// The origin server.
    Server,
    /// The device.
    Client,
}

layered! {
    /// Transfers that are sent over the network.
    pub struct Workload {
        /// `download`, `upload`, `request` or `udp`. Default: `download`.
        pub kind: Kind,
        /// Size of each flow's file. Default: 10 MB.
        pub size: Quantity<Bytes>,
        /// Requests of `request`, one after the other. Default: 10.
        pub requests: u32,
        /// Size of a request. Default: 300 B.
        pub request: Quantity<Bytes>,
        /// Size of a response. Default: 20 KB.
        pub response: Quantity<Bytes>,
        /// Time between a response and the next request. Default: none.
        pub pause: Quantity<Duration>,
        /// Devices at the same time, each with a radio link and an address of its own. Default: 1.
        pub clients: u16,
        /// These devices share one address, each with ports of its own, as behind a NAT. Default: no.
        pub one_address: bool,
        /// Flows at the same time, of each device. Default: 1.
        pub flows: u16,
        /// Time between the starts of two flows. Default: none.
        pub stagger: Quantity<Duration>,
        /// The time limit is the planned end: a transfer it cuts short is no problem. Default: no.
        pub ends_at_limit: bool,
        /// The client reads no faster than this.
        pub read_rate: Quantity<Rate>,
        /// The sender of the data writes no faster than this; the rate of `udp`, payload. Of `udp`
        /// 1 Mbit/s by default.
        pub write_rate: Quantity<Rate>,
        /// Time that `udp` sends. Default: 60 s.
        pub length: Quantity<Duration>,
        /// Payload of a datagram of `udp`. Default: what makes a packet of 1500 B.
        pub datagram: Quantity<Bytes>,
        /// The client closes its direction as soon as it has written everything. Default: no.
        pub half_close: bool,
        /// One host aborts every connection on the way.
        pub reset: Reset,
        /// `ipv4` or `ipv6`. Default: `ipv4`.
        pub family: Family,
        /// Ping the server at this interval alongside. Default: no ping.
        pub ping: Quantity<Duration>,
        /// Fetch a page of this size alongside, each time over a new connection; the lab alone has that.
        /// Default: none.
        pub page: Quantity<Bytes>,
        /// Time between the end of a page and the start of the next. Default: 500 ms.
        pub page_pause: Quantity<Duration>,
        /// Every second flow asks at port 8080 instead of 80; the lab alone has that. Default: no.
        pub second_port: bool,
        /// Traffic of the first device beside these flows. A case replaces all of it. Default: nothing.
        pub beside: Vec<Beside>,
    }
}

impl Workload {
    /// The direction, `download` unless given.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind.unwrap_or_default()
    }
    /// The size of each flow's file, 10 MB unless given.
    #[must_use]
    pub fn size(&self) -> Bytes {
        self.size.map_or(Bytes::new(10_000_000), |q| q.0)
    }
    /// Devices at the same time, at least 1.
    #[must_use]
    pub fn clients(&self) -> u16 {
        self.clients.unwrap_or(1).max(1)
    }
    /// Requests of a flow, at least 1.
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.requests.unwrap_or(10).max(1)
    }
    /// The size of a request, 300 B unless given, at least one byte.
    #[must_use]
    pub fn request(&self) -> Bytes {
        self.request.map_or(Bytes::new(300), |q| q.0).max(Bytes::new(1))
    }
    /// The size of a response, 20 KB unless given, at least one byte.
    #[must_use]
    pub fn response(&self) -> Bytes {
        self.response.map_or(Bytes::new(20_000), |q| q.0).max(Bytes::new(1))
    }
    /// Bytes that are to arrive on each flow, in the direction of the data.
    #[must_use]
    pub fn expected(&self) -> Bytes {
        match self.kind() {
            Kind::Download | Kind::Upload => self.size(),
            Kind::Request => Bytes::new(self.response().get().saturating_mul(u64::from(self.requests()))),
            Kind::Udp => {
                let sent = self.udp_rate().bytes_in(self.length()).get();
                Bytes::new(sent.div_ceil(self.datagram().get()).saturating_mul(self.datagram().get()))
            }
        }
    }
    /// The rate of `udp`, 1 Mbit/s unless given.
    #[must_use]
    pub fn udp_rate(&self) -> Rate {
        self.write_rate.map_or(Rate::from_mbps(1), |q| q.0).max(Rate::from_kbps(1))
    }
    /// Time that `udp` sends, 60 s unless given.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.length.map_or(Duration::from_secs(60), |q| q.0)
    }
    /// Payload of a datagram of `udp`, at least 16 B and in a packet of at most 1500 B, which is the default.
    #[must_use]
    pub fn datagram(&self) -> Bytes {
        let headers = if self.family() == Family::Ipv4 { 28 } else { 48 };
        let largest = Bytes::new(1_500 - headers);
        self.datagram.map_or(largest, |q| q.0).clamp(Bytes::new(16), largest)
    }
    /// The first key that asks for more than downloads, uploads and datagrams by one device: only
    /// the simulator has that.
    #[must_use]
    pub fn simulated_only(&self) -> Option<&'static str> {
        let keys = [
            ("kind = \"request\"", self.kind() == Kind::Request),
            ("clients", self.clients() > 1),
            ("write_rate", self.write_rate.is_some() && self.kind() == Kind::Upload),
            ("half_close", self.half_close == Some(true)),
            ("reset", self.reset.is_some()),
        ];
        keys.into_iter().find_map(|(key, is_asked)| is_asked.then_some(key))
    }
    /// The first key that only the lab has.
    #[must_use]
    pub fn lab_only(&self) -> Option<&'static str> {
        let keys = [("page", self.page.is_some()), ("second_port", self.second_port == Some(true))];
        keys.into_iter().find_map(|(key, is_asked)| is_asked.then_some(key))
    }
    /// Traffic of the first device beside these flows.
    #[must_use]
    pub fn beside(&self) -> &[Beside] {
        self.beside.as_deref().unwrap_or_default()
    }
    /// The ports at which the workload's own flows ask.
    #[must_use]
    pub fn own_ports(&self) -> &'static [u16] {
        if self.second_port == Some(true) { &[80, 8_080] } else { &[80] }
    }
    /// Flows at the same time of each device, at least 1.
    #[must_use]
    pub fn flows(&self) -> u16 {
        self.flows.unwrap_or(1).max(1)
    }
    /// The address family, IPv4 unless given.
    #[must_use]
    pub fn family(&self) -> Family {
        self.family.unwrap_or_default()
    }
}
