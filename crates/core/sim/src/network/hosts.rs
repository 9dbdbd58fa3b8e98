//! Packets that hosts send and get.

use core::net::SocketAddr;

use engine::Port;
use wire::Transport;

use super::{Network, count_one};
use crate::endpoint::answer_of_a_closed_port;
use crate::icmp::{echo, echo_number, echo_reply};
use crate::ip_header::ends;
use crate::{MiddleboxUnderTest, TapPoint, Violation};

/// Addressee of a packet.
pub(super) enum Addressee {
    /// The host of this flow.
    Flow(usize),
    /// A server's address without such a connection.
    Nobody,
}

impl<M: MiddleboxUnderTest> Network<M> {
    /// The flow that a packet for a host on `side` belongs to: of TCP, and of QUIC by its datagrams.
    pub(super) fn addressee(&self, packet: &[u8], side: Port) -> Option<Addressee> {
        let parsed = wire::parse(packet).ok()?;
        let key = |src, dst| if side == Port::Wired { (src, dst) } else { (dst, src) };
        let flow = |key| self.flow_of.get(&key).map(|flow| Addressee::Flow(*flow));
        match &parsed.transport {
            // What an error is about went the other way.
            Transport::Icmp(icmp) => {
                let quoted = icmp.quoted(packet)?;
                let src = SocketAddr::new(quoted.src, quoted.src_port);
                let dst = SocketAddr::new(quoted.dst, quoted.dst_port);
                flow(key(dst, src))
            }
            transport => {
                let (src, dst) = ends(&parsed)?;
                let nobody = matches!(transport, Transport::Tcp(_)).then_some(Addressee::Nobody);
                flow(key(src, dst)).or(nobody)
            }
        }
    }

    pub(super) fn arrive_at_client(&mut self, packet: &[u8]) -> Result<(), Violation> {
        if let Some(pinger) = self.pinger.as_mut()
            && let Some((.., number)) = echo_number(packet, true)
        {
            pinger.take_reply(number, self.now);
            return Ok(());
        }
        if !self.ignores_echo
            && let Some(reply) = echo_reply(packet)
        {
            self.send_up(0, reply);
            return Ok(());
        }
        let mut sources = self.datagrams.iter_mut().chain(&mut self.datagrams_beside);
        if let Some(ack) = sources.find_map(|source| source.handle_at_sink(packet, self.now)) {
            self.send_up(0, ack);
            return Ok(());
        }
        if let Some(Addressee::Flow(flow)) = self.addressee(packet, Port::Mobile) {
            self.clients[flow].handle_packet(packet, self.now);
            self.send_from_client(flow)?;
        }
        Ok(())
    }

    pub(super) fn arrive_at_server(&mut self, packet: &[u8]) -> Result<(), Violation> {
        if self.pinger.is_some()
            && let Some((from, to, number)) = echo_number(packet, false)
        {
            if let Some(reply) = echo(to, from, true, number) {
                self.send_down(reply);
            }
            return Ok(());
        }
        let mut sources = self.datagrams.iter_mut().chain(&mut self.datagrams_beside);
        if sources.any(|source| source.handle_at_source(packet, self.now)) {
            return Ok(());
        }
        match self.addressee(packet, Port::Wired) {
            Some(Addressee::Flow(flow)) => {
                self.servers[flow].handle_packet(packet, self.now);
                self.send_from_server(flow)?;
            }
            // A client that changed its address in the middle of a connection: nobody knows it here.
            Some(Addressee::Nobody) => {
                if let Some(reset) = answer_of_a_closed_port(packet) {
                    self.send_down(reset);
                }
            }
            None => {}
        }
        Ok(())
    }

    pub(super) fn send_ping(&mut self) {
        let Some(request) = self.pinger.as_mut().and_then(|pinger| pinger.send(self.now)) else { return };
        let radio = self.radio_of.first().copied().unwrap_or(0);
        self.send_up(radio, request);
    }

    pub(super) fn send_datagrams(&mut self) {
        while let Some(packet) = self.due_datagram() {
            self.send_down(packet);
        }
    }

    fn due_datagram(&mut self) -> Option<Vec<u8>> {
        let mut sources = self.datagrams.iter_mut().chain(&mut self.datagrams_beside);
        sources.find_map(|source| source.poll_transmit(self.now))
    }

    /// Sends a server's packet into the WAN.
    fn send_down(&mut self, packet: Vec<u8>) {
        self.log.note(self.now, TapPoint::ServerOut, &packet);
        let sent = self.wan_down.send(packet, self.now);
        self.log.remark(self.now, sent.remark);
        if let Some(answer) = sent.answer {
            self.wan_up.send(answer, self.now);
        }
    }

    /// Sends a client's packet into its radio link.
    fn send_up(&mut self, radio: usize, packet: Vec<u8>) {
        self.log.note(self.now, TapPoint::ClientOut, &packet);
        self.observers[1].observe(&packet, self.now);
        let link = &mut self.radios[radio];
        let sent = link.up.send(packet, self.now);
        self.log.remark(self.now, sent.remark);
        if let Some(answer) = sent.answer {
            link.down.send(answer, self.now);
        }
        self.renew_radio(radio);
    }

    pub(super) fn send_from_server(&mut self, flow: usize) -> Result<(), Violation> {
        let server = &mut self.servers[flow];
        let config = server.config();
        let ends = (config.local.ip(), config.remote.ip());
        server.exchange(|| self.paths.entry(ends).or_default(), flow as u64 + 1, self.now);
        let mut sent = 0;
        while let Some(packet) = self.servers[flow].poll_transmit(self.now) {
            sent = count_one(sent)?;
            self.send_down(packet);
        }
        self.renew_server(flow);
        super::ends::judge_bytes(flow, "server", &self.servers[flow], self.limits.tolerance)
    }

    pub(super) fn send_from_client(&mut self, flow: usize) -> Result<(), Violation> {
        let mut sent = 0;
        while let Some(packet) = self.clients[flow].poll_transmit(self.now) {
            sent = count_one(sent)?;
            self.send_up(self.radio_of[flow], packet);
        }
        self.renew_client(flow);
        super::ends::judge_bytes(flow, "client", &self.clients[flow], self.limits.tolerance)
    }
}
