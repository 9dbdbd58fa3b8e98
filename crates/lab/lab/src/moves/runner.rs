//! [`Runner::run_moves`]: runs a scenario of moving subscribers.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use io::{Clock, Signals};
use scenario::results::Moved;
use scenario::{MoveScheme, Moves, MovesCase, Subscriber, Traffic};
use units::{Duration, Instant};

use super::air::{Air, Plan, Seen, Way};
use super::boxes::{Boxes, Orders, Said};
use super::exchange::{Exchanges, answer, ask};
use super::indirect;
use super::results::{FlowRun, Move, MovesResult, MovesRun};
use super::split;
use super::streams::{BIN, Stream};
use super::world::{World, attribute_of, proxy_of, server_of, subscriber_address};
use crate::error::Context;
use crate::listener::Listener;
use crate::pause::pause;
use crate::radios::ends::{ContentServer, download, upload};
use crate::{LabError, Runner};

/// Time after a subscriber came to its new station in which a gap may still be the move's.
const AFTERWARDS: Duration = Duration::from_secs(1);
/// Time after their start at which flows are given back to their hosts where they fall back.
const FALL_BACK_AT: Duration = Duration::from_secs(1);
/// Interval at which signals are looked at.
const TURN: Duration = Duration::from_millis(100);

/// Observations of the applications at both ends about a flow.
struct Got {
    bytes: u64,
    is_intact: bool,
    answers: Vec<(Instant, Duration)>,
    error: Option<String>,
}

/// A move as whoever ordered it saw it.
struct Ordered {
    subscriber: usize,
    began: Instant,
    took: Duration,
    /// Time when it left its station.
    left: Instant,
    said: Result<Said, String>,
}

impl Runner<'_> {
    /// Runs every case of moving subscribers; `tell` hears of each.
    ///
    /// # Errors
    /// When the network cannot be made, a box or the emulator ends, or the user interrupts. A flow that breaks is a
    /// result.
    pub fn run_moves(
        &self,
        scenario: &Moves,
        tell: &mut dyn FnMut(&MovesRun),
    ) -> Result<MovesResult, LabError> {
        let mut result = MovesResult { scenario: scenario.clone(), runs: Vec::new() };
        for case in &scenario.cases {
            let run = self.moves_of(scenario, case)?;
            tell(&run);
            result.runs.push(run);
        }
        Ok(result)
    }

    fn moves_of(&self, scenario: &Moves, case: &MovesCase) -> Result<MovesRun, LabError> {
        let subscribers = scenario.subscribers();
        let control = scenario.congestion_control_of(case);
        control.map_or(Ok(()), require)?;
        let control = attribute_of(control);
        let (world, devices) = World::create(self.instance.name(), subscribers.len(), &control)?;
        let mut read = |file: &str| crate::read_trace(&self.traces, file);
        let mut links = Vec::new();
        for number in 0..subscribers.len() {
            let of = [scenario.links(number, 0, &mut read)?, scenario.links(number, 1, &mut read)?];
            links.push((subscriber_address(number), of));
        }
        let wire = case.between.0 / 2;
        let forwarding = scenario.forwarding.filter(|_| !case.loses).map(|delay| delay.0);
        let air = Air::start(devices, &Plan { wan: scenario.wan.0, wire, forwarding, subscribers: links })?;
        let (mut boxes, mut proxies, mut indirect) = (None, Vec::new(), None);
        match case.scheme {
            MoveScheme::Handover | MoveScheme::Plain => {
                boxes = Some(Boxes::start(&self.program, &world.boxes, self.instance.directory())?);
            }
            MoveScheme::Split => {
                for namespace in &world.boxes {
                    proxies.push(split::start(namespace, subscribers.len())?);
                }
            }
            MoveScheme::Indirect => {
                indirect = Some(indirect::Proxies::start(&world.boxes, subscribers.len(), &control)?);
            }
        }
        // At the edge of a bin.
        let bins = Clock::now().saturating_since(air.started()).as_nanos() / BIN.as_nanos() + 2;
        let start = air.started() + BIN * bins;
        let stage = Stage {
            scenario,
            case,
            subscribers: &subscribers,
            world: &world,
            air: &air,
            indirect: indirect.as_ref(),
            start,
        };
        let (ordered, got) = stage.play(self.signals, &mut boxes)?;
        if let Some(boxes) = boxes {
            boxes.stop()?;
        }
        drop((proxies, indirect));
        let bins = usize::try_from(bins).unwrap_or(0);
        let account = Account { scenario, case, start, bins, path_rtt: path_rtt(scenario) };
        Ok(account.settle(&subscribers, ordered, got, air.finish()?))
    }
}

/// Has the kernel load a congestion control, where it is a module that is not.
fn require(name: &str) -> Result<(), LabError> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing(|| "open a socket".to_owned())?;
    io::set_congestion_control(&socket, name).map_err(|error| {
        LabError::Which(format!("{error}; `congestion_control` in the scenario takes what this kernel has"))
    })
}

/// The round trip of the path without a queue.
fn path_rtt(scenario: &Moves) -> Duration {
    let radio = [&scenario.down, &scenario.up].map(|way| way.delay.map_or(Duration::ZERO, |delay| delay.0));
    scenario.wan.0 * 2 + radio[0] + radio[1]
}

/// Stage on which a case is played.
struct Stage<'a> {
    scenario: &'a Moves,
    case: &'a MovesCase,
    subscribers: &'a [Subscriber],
    world: &'a World,
    air: &'a Air,
    indirect: Option<&'a indirect::Proxies>,
    start: Instant,
}

/// The server of one subscriber.
enum Server {
    Content(ContentServer),
    Answers { _until_dropped: Listener },
}

impl Stage<'_> {
    fn end(&self) -> Instant {
        self.start + self.scenario.time.0
    }

    fn seed(&self, number: usize) -> u64 {
        self.scenario.seed.wrapping_mul(1_000).wrapping_add(number as u64)
    }

    fn server(&self, number: usize) -> Result<Server, LabError> {
        let at = server_of(number);
        match self.subscribers[number].traffic {
            Traffic::Bulk | Traffic::Upload => {
                ContentServer::start(&self.world.server, at, false, None).map(Server::Content)
            }
            Traffic::Exchanges => Listener::start(&self.world.server, at, answer)
                .map(|listener| Server::Answers { _until_dropped: listener }),
        }
    }

    /// Plays the case: transfers and moves. Boxes are stopped on the way where flows fall back.
    fn play(
        &self,
        signals: &Signals,
        boxes: &mut Option<Boxes>,
    ) -> Result<(Vec<Ordered>, Vec<Got>), LabError> {
        let servers: Vec<Server> =
            (0..self.subscribers.len()).map(|number| self.server(number)).collect::<Result<_, _>>()?;
        let ordered = Mutex::new(Vec::new());
        let orders = boxes.as_ref().map(Boxes::orders);
        // Where flows fall back nobody moves before all are their hosts' again.
        let is_ready = AtomicBool::new(self.case.scheme != MoveScheme::Plain);
        let mut got = std::thread::scope(|scope| -> Result<Vec<Got>, LabError> {
            let (ordered, orders, is_ready) = (&ordered, orders.as_ref(), &is_ready);
            let flows: Vec<_> = (0..self.subscribers.len())
                .map(|number| scope.spawn(move || self.world.client.run(|| self.transfer(number))))
                .collect();
            let movers: Vec<_> = (0..self.subscribers.len())
                .map(|number| scope.spawn(move || self.wander(number, orders, (ordered, is_ready))))
                .collect();
            while !flows.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                if signals.take().is_some() {
                    return Err(LabError::Interrupted);
                }
                if self.air.has_failed() {
                    return Err(LabError::Which("the emulator ended by itself".to_owned()));
                }
                boxes.as_mut().map_or(Ok(()), Boxes::check)?;
                if !is_ready.load(Ordering::Relaxed) && Clock::now() >= self.start + FALL_BACK_AT {
                    boxes.take().map_or(Ok(()), Boxes::stop)?;
                    is_ready.store(true, Ordering::Relaxed);
                }
                pause(TURN)?;
            }
            let panicked = |_| LabError::Which("a thread of the lab panicked".to_owned());
            movers.into_iter().try_for_each(|mover| mover.join().map_err(panicked)?)?;
            flows.into_iter().map(|flow| flow.join().map_err(panicked)?.map_err(LabError::from)).collect()
        })?;
        for ((server, subscriber), got) in servers.iter().zip(self.subscribers).zip(&mut got) {
            let Server::Content(server) = server else { continue };
            if subscriber.traffic != Traffic::Upload {
                continue;
            }
            if let Some(received) = server.received() {
                (got.bytes, got.is_intact) = (received.bytes, received.is_intact);
            }
        }
        Ok((ordered.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner), got))
    }

    /// The transfer of a subscriber, at the client.
    fn transfer(&self, number: usize) -> Got {
        let to = match self.case.scheme {
            MoveScheme::Split | MoveScheme::Indirect => proxy_of(number),
            MoveScheme::Handover | MoveScheme::Plain => server_of(number),
        };
        let (seed, end) = (self.seed(number), self.end());
        // Without descriptors the transfer fails at once, and says so.
        let _ = pause(self.start.saturating_since(Clock::now()));
        match self.subscribers[number].traffic {
            Traffic::Exchanges => {
                let (size, think) = (self.scenario.answer.0.get(), self.scenario.think.0);
                let Exchanges { answers, bytes, is_intact, error } = ask(to, (seed, size, think), end);
                Got { bytes, is_intact, answers, error }
            }
            Traffic::Bulk => {
                let got = download(to, (seed, u64::MAX), end, false);
                Got { bytes: got.bytes, is_intact: got.is_intact, answers: Vec::new(), error: got.error }
            }
            Traffic::Upload => {
                let sent = upload(to, (seed, u64::MAX), end, false);
                Got { bytes: 0, is_intact: false, answers: Vec::new(), error: sent.error }
            }
        }
    }

    /// A subscriber's moves, until the transfers are almost over.
    fn wander(
        &self,
        number: usize,
        orders: Option<&Orders>,
        (ordered, is_ready): (&Mutex<Vec<Ordered>>, &AtomicBool),
    ) -> Result<(), LabError> {
        let Some(first) = self.subscribers[number].first_move else { return Ok(()) };
        let address = subscriber_address(number);
        let (mut at, mut station) = (self.start + first, 0);
        while at + self.scenario.gap.0 + AFTERWARDS < self.end() {
            pause(at.saturating_since(Clock::now()))?;
            if self.air.has_failed() {
                return Ok(());
            }
            if !is_ready.load(Ordering::Relaxed) {
                at += self.scenario.every.0;
                continue;
            }
            let began = Clock::now();
            let said = match (self.case.scheme, orders, self.indirect) {
                (MoveScheme::Handover, Some(orders), _) => {
                    self.air.prepare(number, 1 - station);
                    orders.hand_over(address, station)
                }
                (MoveScheme::Indirect, _, Some(proxies)) => {
                    self.air.prepare(number, 1 - station);
                    proxies.hand_over(number, station)
                }
                _ => Ok(Said::default()),
            };
            if said.is_err() {
                self.air.stay(number);
            }
            let took = Clock::now().saturating_since(began);
            let mut left = began;
            // Whom its box keeps stays where it is.
            if said.is_ok() {
                let Some(moved) = self.air.move_to(number, 1 - station, self.scenario.gap.0) else {
                    return Ok(());
                };
                self.world.route(number, 1 - station)?;
                (left, station) = (moved, 1 - station);
            }
            let order = Ordered { subscriber: number, began, took, left, said };
            ordered.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(order);
            at += self.scenario.every.0;
        }
        Ok(())
    }
}

/// Inputs for figures of what was seen.
struct Account<'a> {
    scenario: &'a Moves,
    case: &'a MovesCase,
    start: Instant,
    /// Bins of the emulator before the start.
    bins: usize,
    path_rtt: Duration,
}

impl Account<'_> {
    fn settle(
        &self,
        subscribers: &[Subscriber],
        mut ordered: Vec<Ordered>,
        got: Vec<Got>,
        mut seen: Seen,
    ) -> MovesRun {
        let time = self.scenario.time.0;
        let (seconds, end) = (time.as_secs_f64(), self.start + time);
        seen.streams.values_mut().for_each(|stream| stream.end(end));
        let mut flows = Vec::new();
        for (number, (subscriber, got)) in subscribers.iter().zip(got).enumerate() {
            let own = streams_of(&seen, number);
            let sum = |value: fn(&Stream) -> u64| own.iter().map(|(_, stream)| value(stream)).sum();
            let answers =
                got.answers.iter().map(|(at, took)| (self.seconds(*at), took.as_millis_f64())).collect();
            let bins = data_of(&own).map_or(&[][..], |stream| &stream.bins[..]);
            let bins = bins.iter().skip(self.bins).take((time.as_nanos() / BIN.as_nanos()) as usize);
            flows.push(FlowRun {
                traffic: subscriber.traffic,
                moves: subscriber.first_move.is_some(),
                bytes: got.bytes,
                goodput_mbps: got.bytes as f64 * 8.0 / seconds / 1e6,
                is_intact: got.is_intact,
                is_stalled: last_move(&ordered, number).is_some_and(|left| {
                    let there = left + self.scenario.gap.0;
                    data_of(&own).is_none_or(|stream| !stream.has_come_since(there))
                }),
                resets: seen.resets[number].iter().filter(|at| **at < end).count() as u64,
                sent_bytes: sum(|stream| stream.sent),
                lost_bytes: sum(|stream| stream.lost),
                needless_bytes: sum(|stream| stream.needless.iter().map(|(_, bytes)| bytes).sum()),
                stranded_packets: seen.stranded[number],
                bins: bins.copied().collect(),
                answers,
                error: got.error,
            });
        }
        ordered.sort_by_key(|order| order.began);
        let moves = ordered.into_iter().map(|order| self.account(order, subscribers, &seen)).collect();
        let lost = seen.stranded.iter().sum();
        let timing = seen.timing.judged(Moved {
            path_rtt_ms: self.path_rtt.as_millis_f64(),
            seconds,
            lost,
            has_round_trips: false,
        });
        MovesRun {
            case: self.case.name.clone(),
            seed: self.scenario.seed,
            seconds,
            flows,
            moves,
            wire_bytes: seen.wire_bytes,
            late_p99_us: timing.late_us.p99,
            late_p50_us: timing.late_us.p50,
            late_max_us: timing.late_us.max,
            distrusted: timing.why_not,
        }
    }

    fn seconds(&self, at: Instant) -> f64 {
        at.saturating_since(self.start).as_secs_f64()
    }

    fn account(&self, order: Ordered, subscribers: &[Subscriber], seen: &Seen) -> Move {
        let traffic = subscribers[order.subscriber].traffic;
        let own = streams_of(seen, order.subscriber);
        let later = order.left + self.scenario.gap.0 + AFTERWARDS;
        let near = |(from, to): &&(Instant, Instant)| *from < later && *to > order.began;
        let has_moved = order.said.is_ok() && traffic != Traffic::Exchanges;
        let gap = data_of(&own).filter(|_| has_moved).and_then(|stream| {
            stream.pauses.iter().filter(near).map(|(from, to)| to.saturating_since(*from)).max()
        });
        let next = order.began + self.scenario.every.0;
        let needless = own.iter().flat_map(|(_, stream)| &stream.needless);
        let needless =
            needless.filter(|(at, _)| *at >= order.began && *at < next).map(|(_, bytes)| bytes).sum();
        let (said, refused) = match order.said {
            Ok(said) => (said, None),
            Err(why) => (Said::default(), Some(why)),
        };
        Move {
            subscriber: order.subscriber,
            traffic,
            at_s: self.seconds(order.began),
            took_ms: order.took.as_millis_f64(),
            phases_ms: said.phases_ms,
            flows: said.flows,
            bytes: said.bytes,
            left_bytes: said.left_bytes,
            gap_ms: gap.map(Duration::as_millis_f64),
            needless_bytes: needless,
            refused,
        }
    }
}

/// Time when a subscriber left a station for the last time.
fn last_move(ordered: &[Ordered], number: usize) -> Option<Instant> {
    let own = ordered.iter().filter(|order| order.subscriber == number && order.said.is_ok());
    own.map(|order| order.left).max()
}

/// All that went over a subscriber's radio.
fn streams_of(seen: &Seen, number: usize) -> Vec<(&Way, &Stream)> {
    let address = subscriber_address(number);
    let is_own = |(from, to): &Way| from.ip() == address || to.ip() == address;
    seen.streams.iter().filter(|(way, stream)| is_own(way) && stream.sent > 0).collect()
}

/// The direction with the most data.
fn data_of<'a>(own: &[(&'a Way, &'a Stream)]) -> Option<&'a Stream> {
    own.iter().map(|(_, stream)| *stream).max_by_key(|stream| stream.sent)
}
