//! Flows that go to another instance, and flows that come from one ([`crate::upgrade::transfer`]).

use engine::PassThrough;
use io::{Clock, Interest, RECORD};

use crate::attachment::Attachment;
use crate::console::Asked;
use crate::feedback::FeedbackReceiver;
use crate::handover::Paused;
use crate::packet_loop::PacketLoop;
use crate::question::{Answer, Question};
use crate::shards::FreezeEnd;
use crate::supervisor::passing::Passing;
use crate::supervisor::{FEEDBACK, Supervisor, Why};
use crate::upgrade::transfer::{self, Holder, Offer, StateReceiver};
use crate::watchdog::Guardian;
use crate::{Event, Processor};
use units::Duration;

/// While the old instance is asked, packets are handed on this often.
const LOOK: Duration = Duration::from_micros(200);

/// Meanwhile signs of life are given this often.
const BEAT_EVERY: Duration = Duration::from_millis(20);

impl<A: Attachment, P: Processor + Send + 'static> Supervisor<'_, A, P> {
    /// Gives all flows to the instance that makes `offer`, and ends then; or says why not, and goes on.
    pub(in crate::supervisor) fn give_flows(&mut self, asked: Asked, offer: &Offer) {
        // Until the flows are another process's, or stay: nothing of a hand-over changes meanwhile.
        let paused = match self.pause_handovers() {
            Ok(paused) => paused,
            Err(why) => return asked.answer(Box::new(move || Answer::Refused(why))),
        };
        let theirs = self.shards.asker().reports();
        let held = theirs.iter().map(|report| report.processor.counter("buffer_bytes_now")).sum::<u64>();
        let holder = Holder {
            shards: theirs.len() + 1,
            ipv6_prefix_len: self.ground.config.ipv6_prefix_len,
            held: self.processor.memory().1 + held,
            is_ending: self.stop.is_some(),
            is_undecided: paused.as_ref().is_some_and(|paused| paused.is_undecided),
            is_passed: self.passing != Passing::No || self.pulse.is_unsteered,
            is_shared: self.successor_needs.is_shared,
        };
        if let Some(why) = holder.objection(offer) {
            return asked.answer(Box::new(move || Answer::Refused(why)));
        }
        self.end_ab("upgrade", Clock::now());
        asked.answer(Box::new(|| Answer::Done("its flows come".to_owned())));
        let others = theirs.iter().map(|report| report.processor.counter("flows_now")).sum::<u64>();
        let flows = self.processor.flow_count() as u64 + others;
        let began = Clock::now();
        if offer.process != 0 {
            // Before it has the flows: from then on it names its own watchdog.
            self.pulse.service.main_is(offer.process);
        }
        let event = match self.send_flows(offer) {
            Ok(()) => {
                // What is written down of hand-overs is the other process's, too.
                if let Some(paused) = paused {
                    paused.for_good();
                }
                if offer.adopts {
                    self.upgrade.is_succeeded = true;
                    self.ground.instance.give();
                    self.pulse.guardian.iter_mut().for_each(Guardian::given);
                } else {
                    self.begin_stop(Why::Upgraded, None);
                }
                Event::HandedOver { flows, held: holder.held, waited_us: waited_us(began) }
            }
            Err(why) => {
                self.pulse.service.main_is(self.pulse.main_process());
                Event::NotHandedOver { why }
            }
        };
        // That was no hang.
        self.pulse.last_alive = Clock::now();
        self.events.on_event(&event);
    }

    /// Has hand-overs wait, if this box has any peers.
    fn pause_handovers(&mut self) -> Result<Option<Paused>, String> {
        let Some(handovers) = &self.inputs.handovers else { return Ok(None) };
        let (packet_loop, processor) = (&mut self.packet_loop, &mut self.processor);
        let paused = handovers.pause(|job| {
            // A device that is gone is noticed in the next turn.
            drop(packet_loop.work(job, processor));
        });
        let busy = "a subscriber is on its way to or from another box: try again";
        paused.map(Some).ok_or_else(|| busy.to_owned())
    }

    /// Stops all shards, sends what they know, and forgets it once the other instance has it.
    fn send_flows(&mut self, offer: &Offer) -> Result<(), String> {
        // If this process dies, its watchdog sees by the record whose they are. Without it, nobody knows.
        if !offer.adopts {
            self.give_up_successor();
        }
        // The other one listens there as soon as it has the flows.
        let had_reports = !offer.adopts && self.inputs.reports.receiver.take().is_some();
        let record = self.ground.instance.path().join(RECORD);
        // All shards store at the same time.
        let freezing = self.shards.freeze();
        let own = self.processor.store();
        let frozen = freezing.frozen().and_then(|frozen| Ok((own?, frozen)));
        let sent = frozen.and_then(|(own, mut frozen)| {
            let mut states = vec![own];
            states.append(&mut frozen.states);
            let (attachment, guardian) = (&self.attachment, &mut self.pulse.guardian);
            let sent = transfer::send(offer, &states, &record, || {
                attachment.beat();
                if let Some(guardian) = guardian {
                    guardian.beat();
                }
            });
            frozen.thaw(match sent {
                Err(_) => FreezeEnd::Stay,
                Ok(()) if offer.adopts => FreezeEnd::Succeeded,
                Ok(()) => FreezeEnd::Gone,
            });
            sent
        });
        match &sent {
            Ok(()) if offer.adopts => self.processor.part(),
            Ok(()) => self.processor.abandon(),
            Err(_) => {
                if !offer.adopts {
                    self.entrust();
                }
                if had_reports {
                    self.listen_again();
                }
            }
        }
        sent
    }

    /// Has reports of base stations received again.
    fn listen_again(&mut self) {
        let Some(wanted) = self.ground.config.feedback.as_ref() else { return };
        let opened = FeedbackReceiver::open(wanted).map_err(|error| error.to_string());
        let watched = opened.and_then(|receiver| {
            let watched = self.inputs.waiter.add(&receiver, Interest::Read, FEEDBACK);
            watched.map(|()| receiver).map_err(|error| error.to_string())
        });
        match watched {
            Ok(receiver) => self.inputs.reports.receiver = Some(receiver),
            Err(error) => self.events.on_event(&Event::WithoutReports { error }),
        }
    }

    /// Takes over the flows of the instance whose place this one takes; false when there is none, or it keeps
    /// them. No packet was read yet. `others` are further shards.
    pub(in crate::supervisor) fn take_flows(&mut self, others: &mut [(PacketLoop<A::Path>, P)]) -> bool {
        let Some(before) = self.attachment.predecessor() else { return false };
        let (mut loops, mut processors) = (vec![&mut self.packet_loop], vec![&mut self.processor]);
        for (packet_loop, processor) in others {
            loops.push(packet_loop);
            processors.push(processor);
        }
        let memory = processors.iter().map(|processor| processor.memory().0).sum();
        let config = self.ground.config;
        let begun = StateReceiver::open(self.ground.instance.path()).map_err(|error| error.to_string());
        let mut hand_on = || loops.iter_mut().for_each(|one| one.finish(&mut PassThrough));
        let asked = begun.and_then(|receiver| {
            let question =
                Question::Upgrade(receiver.offer(processors.len(), config.ipv6_prefix_len, memory, false));
            // What the old one lets through comes here already, and does not wait for its answer.
            let answer = std::thread::scope(|scope| {
                let asking = scope.spawn(|| before.ask(config, &question));
                let mut next_beat = Clock::now();
                while !asking.is_finished() {
                    hand_on();
                    // However long the old one takes: this one lives.
                    if Clock::now() >= next_beat {
                        next_beat = Clock::now() + BEAT_EVERY;
                        self.attachment.beat();
                        self.pulse.guardian.iter_mut().for_each(Guardian::beat);
                    }
                    // Without a waiter's help it is looked at more often.
                    drop(self.inputs.waiter.wait(Some(Clock::now() + LOOK)));
                }
                asking.join()
            });
            let answer = answer.map_err(|_| "who asked it has panicked".to_owned())?;
            Ok((receiver, answer.map_err(|error| error.to_string())?))
        });
        let began = Clock::now();
        let taken = match asked {
            Ok((receiver, Answer::Done(_))) => {
                receiver.take_in(&mut processors, hand_on).and_then(|arrived| arrived.commit(&mut processors))
            }
            Ok((_, Answer::Refused(why))) | Err(why) => Err(why),
            Ok((_, other)) => Err(format!("it answers {other:?}")),
        };
        let is_taken = taken.is_ok();
        let flows = processors.iter().map(|processor| processor.flow_count() as u64).sum();
        let event = match taken {
            Ok(()) => Event::FlowsTakenOver { flows, took_us: waited_us(began) },
            Err(why) => Event::FlowsNotTakenOver { why },
        };
        self.events.on_event(&event);
        is_taken
    }
}

fn waited_us(began: units::Instant) -> u64 {
    Clock::now().saturating_since(began).as_micros()
}
