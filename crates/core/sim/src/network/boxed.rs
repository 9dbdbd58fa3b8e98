//! Transfer of packets into the middlebox, and out of it under the eyes of [`Checks`](crate::checks).

use engine::{Port, Verdict};
use wire::{ChecksumState, GsoType, Packet, TcpFlags, VirtioNetHeader};

use super::hosts::Addressee;
use super::{Network, count_one};
use crate::checks::Origin;
use crate::ip_header::is_intact;
use crate::{MiddleboxUnderTest, TapPoint, Violation};

/// A packet that is about to enter the middlebox.
#[derive(Debug)]
pub(super) struct Waiting {
    from: Port,
    virtio: VirtioNetHeader,
    packet: Vec<u8>,
    is_broken: bool,
    /// None of the hosts has sent it.
    is_strange: bool,
}

impl<M: MiddleboxUnderTest> Network<M> {
    pub(super) fn enter_middlebox(&mut self, from: Port, arrivals: Vec<Vec<u8>>) -> Result<(), Violation> {
        if arrivals.is_empty() {
            return Ok(());
        }
        let point = if from == Port::Wired { TapPoint::WiredIn } else { TapPoint::MobileIn };
        let mut are_intact = true;
        for packet in &arrivals {
            self.log.note(self.now, point, packet);
            if let Some(strangers) = self.strangers.as_mut() {
                strangers.note(from, packet);
            }
            let parsed = wire::parse(packet).ok().filter(|parsed| is_intact(packet, parsed));
            are_intact &= parsed.is_some();
            if let Some(parsed) = parsed {
                self.checks.on_arrival(from, &parsed);
            }
        }
        let arrivals = if self.merges_arrivals {
            crate::merging::merge(arrivals)
        } else {
            arrivals.into_iter().map(|packet| (VirtioNetHeader::default(), packet)).collect()
        };
        for (virtio, packet) in arrivals {
            // Looked at again only where one of them was broken.
            let is_broken = !are_intact
                && virtio.gso_type == GsoType::None
                && !wire::parse(&packet).is_ok_and(|parsed| is_intact(&packet, &parsed));
            self.waiting.push_back(Waiting { from, virtio, packet, is_broken, is_strange: false });
        }
        self.let_waiting_enter()
    }

    /// Lets the waiting packets in, as long as somebody is there.
    pub(super) fn let_waiting_enter(&mut self) -> Result<(), Violation> {
        while !self.middlebox.is_shut()
            && let Some(waiting) = self.waiting.pop_front()
        {
            if waiting.is_strange {
                self.pass_strange(waiting);
            } else {
                let Waiting { from, virtio, packet, is_broken, .. } = waiting;
                self.pass_through_middlebox(from, virtio, packet, is_broken)?;
            }
            self.send_from_middlebox()?;
        }
        Ok(())
    }

    /// Queues the packets that strangers send at this time for the middlebox.
    pub(super) fn let_strangers_act(&mut self) {
        let Some(strangers) = self.strangers.as_mut() else { return };
        while let Some((from, packet)) = strangers.poll(&self.servers, &self.clients, self.now) {
            let point = if from == Port::Wired { TapPoint::WiredIn } else { TapPoint::MobileIn };
            self.log.note(self.now, point, &packet);
            self.log.remark(self.now, Some("of a stranger"));
            let virtio = VirtioNetHeader::default();
            self.waiting.push_back(Waiting { from, virtio, packet, is_broken: false, is_strange: true });
        }
    }

    /// A stranger's packet enters the middlebox, and may pass: the rules are about what hosts have sent. What
    /// it does to the middlebox shows in what that makes, and in what it makes of the hosts' own packets.
    fn pass_strange(&mut self, waiting: Waiting) {
        let Waiting { from, virtio, mut packet, .. } = waiting;
        self.checks.on_replay(&packet, from.opposite());
        // It may pass later: as it came, or of a flow that is known with what the middlebox states for its hosts.
        self.strange.insert(without_statements(&packet));
        if self.middlebox.handle_packet(from, &virtio, &mut packet, self.now) == Verdict::Forward {
            self.leave(from.opposite(), packet);
        }
    }

    fn pass_through_middlebox(
        &mut self,
        from: Port,
        virtio: VirtioNetHeader,
        mut packet: Vec<u8>,
        is_broken: bool,
    ) -> Result<(), Violation> {
        let to = from.opposite();
        let is_whole = virtio.gso_type == GsoType::None;
        // What may only pass as it is: a SYN, what is broken, and what is no segment of any flow. A
        // SYN that somebody made a reset is a reset (RFC 9293 §3.10.7.4).
        let parsed = wire::parse(&packet).ok();
        let tcp = parsed.as_ref().and_then(|p| p.tcp());
        let is_syn = tcp.is_some_and(|t| t.flags.contains(TcpFlags::SYN) && !t.flags.contains(TcpFlags::RST));
        let is_known = parsed.as_ref().is_some_and(|p| self.checks.knows(p, from.opposite()));
        let is_untouchable = is_whole && (is_syn || !is_known || is_broken);
        // A client's own SACK blocks go on only when its flow is handed back with this very packet.
        let has_sack = from == Port::Mobile && tcp.is_some_and(|t| !t.options.sack.is_empty());
        let only_windows = self.limits.lowers_windows_only;
        let keeps = is_untouchable || has_sack || only_windows || self.middlebox.is_leaving();
        let before = keeps.then(|| packet.clone());
        if self.middlebox.handle_packet(from, &virtio, &mut packet, self.now) == Verdict::Consumed {
            return Ok(());
        }
        if let Some(before) = before.as_ref().filter(|_| is_untouchable) {
            if packet != *before && (is_syn || !is_known) {
                let packet = parsed.map_or_else(String::new, |p| p.to_string());
                let rule = if is_syn { "a SYN was changed" } else { "a packet of no flow was changed" };
                return Err(Violation::Packet { to, rule, packet });
            }
            if !is_syn || !is_known || is_broken {
                // A broken packet may pass as it is: the host drops it.
                self.leave(to, packet);
                return Ok(());
            }
        }
        if let Some(before) = before.as_ref().filter(|_| only_windows) {
            self.checks.on_passage(to, before, &packet)?;
        }
        if before.as_ref() == Some(&packet) && !is_syn {
            // The middlebox is on its way out, and hosts speak for themselves again.
            self.checks.on_hand_back(&packet, to);
        }
        self.send_out(Origin::Forwarded, to, &virtio, packet)
    }

    pub(super) fn send_from_middlebox(&mut self) -> Result<(), Violation> {
        if self.middlebox.take_crash() {
            self.checks.on_crash();
        }
        let mut sent = 0;
        while let Some(made) = self.middlebox.poll_transmit(self.now) {
            let (to, virtio, packet) = (made.to, made.virtio, made.to_vec());
            sent = count_one(sent)?;
            if self.middlebox.has_passed() {
                self.pass_late(to, &virtio, packet)?;
                continue;
            }
            let origin = if self.middlebox.has_forwarded() { Origin::Forwarded } else { Origin::Made };
            self.send_out(origin, to, &virtio, packet)?;
        }
        Ok(())
    }

    /// Sends what passes after it has waited: judged where it is of a flow that is known.
    fn pass_late(&mut self, to: Port, virtio: &VirtioNetHeader, packet: Vec<u8>) -> Result<(), Violation> {
        // A partial checksum is one that the middlebox, or the host that merged for it, vouches for.
        let is_vouched_for = virtio.checksum_state() == ChecksumState::Partial;
        let parsed = wire::parse(&packet).ok().filter(|parsed| is_vouched_for || is_intact(&packet, parsed));
        if self.strange.remove(&without_statements(&packet)) {
            self.leave(to, packet);
            return Ok(());
        }
        if parsed.is_some_and(|parsed| self.checks.knows(&parsed, to)) {
            return self.send_out(Origin::Forwarded, to, virtio, packet);
        }
        for packet in crate::merging::cut(to, Origin::Forwarded, virtio, packet)? {
            self.leave(to, packet);
        }
        Ok(())
    }

    /// Cuts, judges and sends what leaves the middlebox.
    fn send_out(
        &mut self,
        origin: Origin,
        to: Port,
        virtio: &VirtioNetHeader,
        packet: Vec<u8>,
    ) -> Result<(), Violation> {
        self.checks.note_leaving(self.middlebox.is_leaving());
        for packet in crate::merging::cut(to, origin, virtio, packet)? {
            let judged = wire::parse(&packet).map(|parsed| self.judge(origin, to, &packet, &parsed));
            self.leave(to, packet);
            judged.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// Judges a packet that leaves the middlebox. A flow that ended while it was to be handed back is in no
    /// table any more without a word, and its late packets pass.
    fn judge(&mut self, origin: Origin, to: Port, bytes: &[u8], packet: &Packet) -> Result<(), Violation> {
        let judged = self.checks.on_departure(to, origin, bytes, packet, self.now);
        if judged.is_ok() || origin == Origin::Made {
            return judged;
        }
        let ends = self.checks.ends_of(packet, to);
        if ends.is_some_and(|(client, server)| self.middlebox.has_flow(client, server)) {
            return judged;
        }
        self.checks.on_hand_back(bytes, to);
        self.checks.on_departure(to, origin, bytes, packet, self.now)
    }

    fn leave(&mut self, to: Port, packet: Vec<u8>) {
        if self.middlebox.is_shut() {
            // It has died with it.
            return;
        }
        match to {
            Port::Wired => {
                self.log.note(self.now, TapPoint::WiredOut, &packet);
                let sent = self.wan_up.send(packet, self.now);
                self.log.remark(self.now, sent.remark);
                if let Some(answer) = sent.answer {
                    self.wan_down.send(answer, self.now);
                }
            }
            Port::Mobile => {
                self.log.note(self.now, TapPoint::MobileOut, &packet);
                self.observers[0].observe(&packet, self.now);
                let radio = self.radio_for(&packet);
                let Some(link) = self.radios.get_mut(radio) else { return };
                let sent = link.down.send(packet, self.now);
                self.log.remark(self.now, sent.remark);
                if let Some(answer) = sent.answer {
                    link.up.send(answer, self.now);
                }
                self.renew_radio(radio);
            }
        }
    }

    /// The radio link behind which a packet's destination is; the first for an unknown one.
    fn radio_for(&self, packet: &[u8]) -> usize {
        if self.radios.len() < 2 {
            return 0;
        }
        // Devices behind one address differ by their ports.
        if let Some(Addressee::Flow(flow)) = self.addressee(packet, Port::Mobile) {
            return self.radio_of.get(flow).copied().unwrap_or(0);
        }
        let destination = wire::parse(packet).ok().map(|parsed| parsed.ip.dst);
        destination.and_then(|address| self.radio_to.get(&address)).copied().unwrap_or(0)
    }

    /// Checks what must hold between two points of time, after everything that was due.
    pub(super) fn settle(&mut self) -> Result<(), Violation> {
        let now = self.now;
        // The same time once more must change nothing.
        let deadline = self.middlebox.next_deadline();
        self.middlebox.handle_timeout(now);
        if let Some(again) = self.middlebox.poll_transmit(now) {
            let packet = wire::parse(&again.to_vec()).map_or_else(|e| e.to_string(), |p| p.to_string());
            return Err(Violation::Twice { what: packet });
        }
        // Unless it has just died of it.
        if self.middlebox.next_deadline() != deadline && !self.middlebox.is_shut() {
            return Err(Violation::Twice { what: format!("its deadline was {deadline:?}") });
        }
        let (memory, limit) = (self.middlebox.memory(), self.limits.memory_max);
        if memory > limit {
            return Err(Violation::Memory { memory, limit });
        }
        self.checks.on_pause(now)
    }
}

/// A packet without what a host states in each of its segments: acknowledgement, window, options, and the checksum.
fn without_statements(packet: &[u8]) -> Vec<u8> {
    let mut rest = packet.to_vec();
    let tcp =
        wire::parse(packet).ok().and_then(|parsed| parsed.tcp().map(|tcp| (tcp.offset, tcp.payload_len)));
    if let Some((offset, payload_len)) = tcp {
        let end = rest.len().saturating_sub(payload_len);
        for range in [offset + 8..offset + 12, offset + 14..offset + 18, offset + 20..end] {
            rest.get_mut(range).into_iter().flatten().for_each(|byte| *byte = 0);
        }
    }
    rest
}
