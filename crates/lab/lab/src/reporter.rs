//! [`Reporter`]: the base station of the emulated radio link, which reports to the accelerator by UDP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use io::{Clock, Namespace};
use link::{BaseStation, BaseStationConfig, Link};
use units::{Instant, Rate};
use wire::FeedbackDatagram;

use crate::LabError;
use crate::error::Context;

/// Address on which the accelerator listens, in its namespace.
pub(crate) const FEEDBACK_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7310);

/// Measures the radio link towards the client and reports it. Delay and loss of the reports are the
/// link model's; the socket is in the accelerator's namespace, so that nothing else delays them.
#[derive(Debug)]
pub struct Reporter {
    config: BaseStationConfig,
    station: Option<BaseStation>,
    socket: UdpSocket,
    subscriber: IpAddr,
    sender: u32,
}

impl Reporter {
    /// A base station that reports about `subscriber` to the accelerator in `accelerator`.
    ///
    /// # Errors
    /// No socket can be had there.
    pub fn open(
        config: BaseStationConfig,
        accelerator: &Namespace,
        subscriber: IpAddr,
    ) -> Result<Self, LabError> {
        let socket = accelerator.run(|| {
            let socket = UdpSocket::bind((FEEDBACK_ADDRESS.ip(), 0))?;
            socket.connect(FEEDBACK_ADDRESS)?;
            socket.set_nonblocking(true)?;
            Ok::<_, std::io::Error>(socket)
        })?;
        let socket = socket.doing(|| "make the base station's socket".to_owned())?;
        Ok(Self { config, station: None, socket, subscriber, sender: std::process::id() })
    }

    /// The link's time begins.
    pub(crate) fn begin(&mut self, seed: u64, start: Instant) -> Result<(), LabError> {
        self.station = Some(BaseStation::new(self.config, seed, start)?);
        Ok(())
    }

    /// Time when there is something to measure or to send.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.station.as_ref().map(BaseStation::next_deadline)
    }

    /// Measures and sends what is due.
    pub(crate) fn turn(&mut self, link: &mut Link<Vec<u8>>) {
        let now = Clock::now();
        let Some(station) = self.station.as_mut().filter(|station| station.next_deadline() <= now) else {
            return;
        };
        station.measure(link, now);
        while let Some(report) = station.poll(now) {
            let age = Clock::now().saturating_since(report.measured_at);
            let datagram = FeedbackDatagram {
                sender: self.sender,
                // Zero would not be newer than nothing.
                sequence: report.sequence + 1,
                timestamp_us: Clock::wall_nanos().saturating_sub(age.as_nanos()) / 1_000,
                is_synchronised: true,
                subscriber: self.subscriber,
                bandwidth: Some(report.bandwidth).filter(|&rate| rate != Rate::MAX),
                is_throughput: false,
                queue: Some(report.queue),
                validity: report.validity,
            };
            // Nobody listens while the accelerator starts or ends: lost, as any datagram may be.
            let _ = self.socket.send(datagram.encode(None).as_ref());
        }
    }
}
