//! [`Network`]: hosts, links and a middlebox in virtual time.

use units::{Bytes, Instant};
use wire::{GsoType, VirtioNetHeader};

use crate::checks::{Checks, Origin};
use crate::{
    CheckConfig, Endpoint, EndpointConfig, LogMode, Middlebox, Outgoing, PacketLog, Path, PathConfig, Point,
    Side, SimError, Violation,
};

mod ends;

/// Rounds of events, or packets of one node, at one point of time; more means that some deadline never moves.
const ROUNDS_MAX: usize = 20_000;

/// The two hosts of a flow.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// On the wired side.
    pub server: EndpointConfig,
    /// On the mobile side.
    pub client: EndpointConfig,
}

/// Everything that describes a run.
#[derive(Clone, Debug, Default)]
pub struct NetworkConfig {
    /// Server to middlebox.
    pub wan_down: PathConfig,
    /// Middlebox to server.
    pub wan_up: PathConfig,
    /// Middlebox to client.
    pub radio_down: PathConfig,
    /// Client to middlebox.
    pub radio_up: PathConfig,
    /// The flows; each has its own hosts, all share the links.
    pub flows: Vec<FlowConfig>,
    /// Limits of the run.
    pub checks: CheckConfig,
    /// What is written down.
    pub log: LogMode,
    /// Packets that reach the middlebox together are handed to it as super-packets, as a TUN device does.
    pub merges_arrivals: bool,
}

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When the last flow had come to its end.
    pub ended_at: Instant,
    /// Largest debt of a flow.
    pub debt_max: Bytes,
    /// [`PacketLog::hash`].
    pub log_hash: u64,
    /// Packets seen at all points together.
    pub packets: u64,
}

/// Hosts, links and a middlebox:
///
/// ```text
///   servers ── wan_down ──▶ ┌─────┐ ── radio_down ──▶ clients
///                           │ box │
///           ◀── wan_up ──── └─────┘ ◀── radio_up ────
/// ```
#[derive(Debug)]
pub struct Network<M> {
    servers: Vec<Endpoint>,
    wan_down: Path,
    wan_up: Path,
    middlebox: M,
    radio_down: Path,
    radio_up: Path,
    clients: Vec<Endpoint>,
    now: Instant,
    checks: Checks,
    limits: CheckConfig,
    log: PacketLog,
    merges_arrivals: bool,
}

impl<M: Middlebox> Network<M> {
    /// The line-up of `config` around `middlebox`, at time zero.
    ///
    /// # Errors
    /// A link's settings are out of range.
    pub fn new(config: &NetworkConfig, middlebox: M) -> Result<Self, SimError> {
        let flows = &config.flows;
        Ok(Self {
            servers: flows.iter().map(|f| Endpoint::new(f.server.clone())).collect(),
            wan_down: Path::new(&config.wan_down, "WAN down")?,
            wan_up: Path::new(&config.wan_up, "WAN up")?,
            middlebox,
            radio_down: Path::new(&config.radio_down, "radio down")?,
            radio_up: Path::new(&config.radio_up, "radio up")?,
            clients: flows.iter().map(|f| Endpoint::new(f.client.clone())).collect(),
            now: Instant::ZERO,
            checks: Checks::new(config.checks, flows.iter().map(|f| (f.client.local, f.server.local))),
            limits: config.checks,
            log: PacketLog::new(config.log),
            merges_arrivals: config.merges_arrivals,
        })
    }

    /// The servers, by flow.
    #[must_use]
    pub fn servers(&self) -> &[Endpoint] {
        &self.servers
    }
    /// The clients, by flow.
    #[must_use]
    pub fn clients(&self) -> &[Endpoint] {
        &self.clients
    }
    /// The middlebox.
    #[must_use]
    pub fn middlebox(&self) -> &M {
        &self.middlebox
    }
    /// The radio link towards the clients, to read its packet log.
    pub fn radio_down(&mut self) -> &mut Path {
        &mut self.radio_down
    }
    /// What passed where.
    #[must_use]
    pub fn log(&self) -> &PacketLog {
        &self.log
    }
    /// The present.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }
    /// True when the middlebox made packets of its own for a flow.
    #[must_use]
    pub fn is_accelerated(&self, flow: usize) -> bool {
        self.checks.is_accelerated(flow)
    }

    /// Runs until every flow has come to its end.
    ///
    /// # Errors
    /// A rule was broken, or a flow does not end in time.
    pub fn run(&mut self) -> Result<Outcome, SimError> {
        let broken = |at, violation| SimError::Broken { at, violation };
        loop {
            self.step().map_err(|violation| broken(self.now, violation))?;
            if self.has_ended() {
                self.judge_ends().map_err(|violation| broken(self.now, violation))?;
                return Ok(Outcome {
                    ended_at: self.now,
                    debt_max: self.checks.debt_max(),
                    log_hash: self.log.hash(),
                    packets: self.log.packets(),
                });
            }
            match self.next_deadline() {
                Some(at) if at <= self.limits.ends_by => self.now = at.max(self.now),
                _ => return Err(broken(self.now, self.stalled())),
            }
        }
    }

    /// When anything happens next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let hosts = self.servers.iter().chain(&self.clients).filter_map(Endpoint::next_deadline);
        let paths = [&self.wan_down, &self.wan_up, &self.radio_down, &self.radio_up];
        let paths = paths.into_iter().filter_map(Path::next_deadline);
        hosts.chain(paths).chain(self.middlebox.next_deadline()).min()
    }

    /// Lets everything happen that is due at the present.
    fn step(&mut self) -> Result<(), Violation> {
        for _ in 0..ROUNDS_MAX {
            self.let_timers_act()?;
            self.deliver()?;
            if self.next_deadline().is_none_or(|at| at > self.now) {
                return Ok(());
            }
        }
        Err(Violation::Busy)
    }

    fn let_timers_act(&mut self) -> Result<(), Violation> {
        let now = self.now;
        for flow in 0..self.servers.len() {
            if self.servers[flow].next_deadline().is_some_and(|at| at <= now) {
                self.servers[flow].handle_timeout(now);
                self.send_from_server(flow)?;
            }
            if self.clients[flow].next_deadline().is_some_and(|at| at <= now) {
                self.clients[flow].handle_timeout(now);
                self.send_from_client(flow)?;
            }
        }
        if self.middlebox.next_deadline().is_some_and(|at| at <= now) {
            self.middlebox.handle_timeout(now);
            self.send_from_middlebox()?;
        }
        Ok(())
    }

    fn deliver(&mut self) -> Result<(), Violation> {
        let arrivals = drain(&mut self.wan_down, self.now);
        self.enter_middlebox(Side::Wired, arrivals)?;
        for packet in drain(&mut self.radio_down, self.now) {
            self.log.note(self.now, Point::ClientIn, &packet);
            if let Some(flow) = self.addressee(&packet, Side::Mobile) {
                self.clients[flow].handle_packet(&packet, self.now);
                self.send_from_client(flow)?;
            }
        }
        let arrivals = drain(&mut self.radio_up, self.now);
        self.enter_middlebox(Side::Mobile, arrivals)?;
        for packet in drain(&mut self.wan_up, self.now) {
            self.log.note(self.now, Point::ServerIn, &packet);
            if let Some(flow) = self.addressee(&packet, Side::Wired) {
                self.servers[flow].handle_packet(&packet, self.now);
                self.send_from_server(flow)?;
            }
        }
        Ok(())
    }

    /// The flow whose host on `side` a packet is for.
    fn addressee(&self, packet: &[u8], side: Side) -> Option<usize> {
        let parsed = wire::parse(packet).ok()?;
        let tcp = parsed.tcp()?;
        let hosts = if side == Side::Wired { &self.servers } else { &self.clients };
        hosts.iter().position(|host| {
            let (local, remote) = (host.config().local, host.config().remote);
            (local.ip(), local.port(), remote.ip(), remote.port())
                == (parsed.ip.dst, tcp.dst_port, parsed.ip.src, tcp.src_port)
        })
    }

    fn send_from_server(&mut self, flow: usize) -> Result<(), Violation> {
        let mut sent = 0;
        while let Some(packet) = self.servers[flow].poll_transmit(self.now) {
            sent = count_one(sent)?;
            self.log.note(self.now, Point::ServerOut, &packet);
            let fate = self.wan_down.send(packet, self.now);
            note_fate(&mut self.log, self.now, fate);
        }
        ends::judge_bytes(flow, "server", &self.servers[flow])
    }

    fn send_from_client(&mut self, flow: usize) -> Result<(), Violation> {
        let mut sent = 0;
        while let Some(packet) = self.clients[flow].poll_transmit(self.now) {
            sent = count_one(sent)?;
            self.log.note(self.now, Point::ClientOut, &packet);
            let fate = self.radio_up.send(packet, self.now);
            note_fate(&mut self.log, self.now, fate);
        }
        ends::judge_bytes(flow, "client", &self.clients[flow])
    }

    fn enter_middlebox(&mut self, from: Side, arrivals: Vec<Vec<u8>>) -> Result<(), Violation> {
        let point = if from == Side::Wired { Point::WiredIn } else { Point::MobileIn };
        for packet in &arrivals {
            self.log.note(self.now, point, packet);
            if is_intact(packet)
                && let Ok(parsed) = wire::parse(packet)
            {
                self.checks.on_arrival(from, &parsed);
            }
        }
        let whole = VirtioNetHeader::default();
        let arrivals = if self.merges_arrivals {
            crate::merging::merge(arrivals)
        } else {
            arrivals.into_iter().map(|packet| (whole, packet)).collect()
        };
        for (virtio, packet) in arrivals {
            self.pass_through_middlebox(from, virtio, packet)?;
            self.send_from_middlebox()?;
        }
        Ok(())
    }

    fn pass_through_middlebox(
        &mut self,
        from: Side,
        virtio: VirtioNetHeader,
        mut packet: Vec<u8>,
    ) -> Result<(), Violation> {
        let before = packet.clone();
        let to = from.other();
        if !self.middlebox.handle_packet(from, &virtio, &mut packet, self.now) {
            return Ok(());
        }
        if virtio.gso_type == GsoType::None && !is_intact(&before) {
            // A broken packet may pass as it is: the host drops it.
            self.leave(to, packet);
            return Ok(());
        }
        let is_syn = wire::parse(&before)
            .is_ok_and(|p| p.tcp().is_some_and(|t| t.flags.contains(wire::TcpFlags::SYN)));
        if is_syn && packet != before {
            let parsed = wire::parse(&before);
            let packet = parsed.map_or_else(|e| e.to_string(), |p| p.to_string());
            return Err(Violation::Packet { to, rule: "a SYN was changed", packet });
        }
        self.send_out(Origin::Forwarded, Outgoing { to, virtio, packet })
    }

    fn send_from_middlebox(&mut self) -> Result<(), Violation> {
        let mut sent = 0;
        while let Some(outgoing) = self.middlebox.poll_transmit(self.now) {
            sent = count_one(sent)?;
            self.send_out(Origin::Made, outgoing)?;
        }
        Ok(())
    }

    /// Cuts, judges and sends what leaves the middlebox.
    fn send_out(&mut self, origin: Origin, outgoing: Outgoing) -> Result<(), Violation> {
        let to = outgoing.to;
        for packet in crate::merging::cut(outgoing)? {
            if let Ok(parsed) = wire::parse(&packet)
                && let Err(violation) = self.checks.on_departure(to, origin, &packet, &parsed)
            {
                self.leave(to, packet);
                return Err(violation);
            }
            self.leave(to, packet);
        }
        Ok(())
    }

    fn leave(&mut self, to: Side, packet: Vec<u8>) {
        let (point, path) = match to {
            Side::Wired => (Point::WiredOut, &mut self.wan_up),
            Side::Mobile => (Point::MobileOut, &mut self.radio_down),
        };
        self.log.note(self.now, point, &packet);
        let fate = path.send(packet, self.now);
        note_fate(&mut self.log, self.now, fate);
    }
}

/// One more packet of one node at one point of time, which must come to an end.
fn count_one(sent: usize) -> Result<usize, Violation> {
    if sent < ROUNDS_MAX { Ok(sent + 1) } else { Err(Violation::Busy) }
}

fn note_fate(log: &mut PacketLog, now: Instant, fate: Option<&'static str>) {
    if let Some(fate) = fate {
        log.remark(now, format_args!("{fate}"));
    }
}

fn drain(path: &mut Path, now: Instant) -> Vec<Vec<u8>> {
    core::iter::from_fn(|| path.poll(now)).collect()
}

/// True when all checksums are right.
fn is_intact(packet: &[u8]) -> bool {
    wire::ipv4_checksum_is_valid(packet)
        && wire::parse(packet).is_ok_and(|parsed| wire::tcp_checksum_is_valid(packet, &parsed))
}

#[cfg(test)]
mod tests;
