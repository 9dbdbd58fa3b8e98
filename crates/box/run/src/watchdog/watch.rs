//! [`watch`]: the watchdog itself, from its start to what it does about the end of the process.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use io::netlink::Netlink;
use io::{
    Caller, Clock, Interest, IoError, Lifeline, OWNER, PidFd, ProcessId, RunningTime, Waiter, ignore_signals,
};
use units::{Duration, Instant};

use super::death::{self, Remains};
use super::said::Said;
use super::{REMOVED, Watched};
use crate::{RunError, log, notrack, record};

/// SIGHUP, SIGINT, SIGQUIT, SIGTERM: the watchdog ends by itself, after the process it watches.
const IGNORED: [i32; 4] = [1, 2, 3, 15];

/// Longest time that a process may take to end by itself that nobody needs any more.
const ABANDONED_TIME_MAX: Duration = Duration::from_secs(1);

/// Longest time that a process may take to end that has closed its end of the line.
const END_TIME_MAX: Duration = Duration::from_secs(1);

/// Token that [`watch`] waits for.
const HEARTBEAT: u64 = 0;
const LIFELINE: u64 = 1;

/// Factor by which a process without a processor may be silent for longer than one that runs, or by which a
/// watchdog without one may wait for longer: then packets go past it, whatever it waits for (H37).
const STARVED_FACTOR: u64 = 5;

/// Interval of the checks whether a process that has no processor has got one.
const STARVED_LOOK: Duration = Duration::from_millis(20);

/// Part of the permitted silence after which a silent process is looked at first, which is later than its
/// heartbeat is due, and number of further looks before that time is over: its threads may have waited for a
/// processor one after the other, which only several looks show.
const FIRST_LOOK: u64 = 2;
const LOOKS: u64 = 16;

/// The watchdog itself: watches the process at the other end of standard input over the instance whose
/// record is at `watched_record`, until that process has ended.
///
/// # Errors
/// When something could not be undone; everything else was.
pub fn watch(watched_record: &Path, hang_after: Duration) -> Result<Watched, RunError> {
    ignore_signals(&IGNORED);
    let mut watch = Watch::begin(watched_record, hang_after)?;
    while watch.goes_on()? {}
    if let Some(process) = watch.left_alive()? {
        let text = format!("process {process} is not watched any more, and runs: nothing is undone");
        log::warn(&text);
        return Ok(Watched::Well);
    }
    let Watch { said, netlink, lifeline, .. } = watch;
    death::see_to(watched_record, said, lifeline.as_ref(), &netlink)
}

/// A process under watch.
struct Watch<'a> {
    record: &'a Path,
    hang_after: Duration,
    socket: UnixStream,
    waiter: Waiter,
    netlink: Netlink,
    lifeline: Option<Lifeline>,
    said: Said,
    /// The process that is watched; none where it is not known which one that is.
    process: Option<ProcessId>,
    /// The line to it is closed or broken.
    is_line_closed: bool,
    /// Duration of the silence of the process; none while the steering is away.
    silence: Option<Silence>,
    /// Running time that it has had meanwhile; none where it is not known which process that is.
    running_time: Option<RunningTime>,
    /// Nobody needs the process any more: when it is killed.
    kill_at: Option<Instant>,
}

/// The time since a process has shown that it is alive.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// Since then, or since this process has found that it did not run itself.
    since: Instant,
    looked_at: Instant,
    next_look: Instant,
    /// Time in which this process was there to hear.
    heard: Duration,
    /// That the process has no processor was said.
    is_told: bool,
}

impl Silence {
    fn begin(now: Instant, patience: Duration) -> Self {
        let next_look = now + patience / FIRST_LOOK;
        Self { since: now, looked_at: now, next_look, heard: Duration::ZERO, is_told: false }
    }

    /// Begins anew, but for what was heard so far.
    fn restart(&mut self, now: Instant, patience: Duration) {
        *self = Self { heard: self.heard, is_told: self.is_told, ..Self::begin(now, patience) };
    }

    /// True while it is shorter than `patience`: then another look comes soon.
    fn is_short(&mut self, patience: Duration) -> bool {
        let left = (self.since + patience).saturating_since(self.looked_at);
        self.next_look = self.looked_at + left.min(patience / LOOKS);
        !left.is_zero()
    }

    /// Notes a look at `now`; true when it came late by more than `slack`: this process has not run either.
    fn note_look(&mut self, now: Instant, slack: Duration) -> bool {
        let (elapsed, planned) =
            (now.saturating_since(self.looked_at), self.next_look.saturating_since(self.looked_at) + slack);
        self.heard += elapsed.min(planned);
        self.looked_at = now;
        elapsed > planned
    }
}

impl<'a> Watch<'a> {
    fn begin(record: &'a Path, hang_after: Duration) -> Result<Self, RunError> {
        let failed = |error| RunError::Watchdog(IoError::system("open the heartbeat's socket", error));
        let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
        let netlink = Netlink::open()?;
        let waiter = Waiter::new(Duration::ZERO)?;
        waiter.add(&socket, Interest::Read, HEARTBEAT)?;
        let lifeline = Lifeline::inherited();
        if let Some(line) = &lifeline {
            waiter.add(line, Interest::Read, LIFELINE)?;
        }
        let now = Clock::now();
        let silence = Some(Silence::begin(now, hang_after));
        // The process that has made the pair of sockets.
        let process = Caller::of(&socket).ok().map(|caller| caller.process);
        let running_time = process.map(|process| RunningTime::of(process, now));
        let process = process.and_then(|process| ProcessId::of(process).ok());
        let (said, kill_at) = (Said::default(), None);
        Ok(Self {
            record,
            hang_after,
            socket,
            waiter,
            netlink,
            lifeline,
            said,
            process,
            is_line_closed: false,
            silence,
            running_time,
            kill_at,
        })
    }

    /// Waits for a word of the process, or its silence; false when the watch is over.
    fn goes_on(&mut self) -> Result<bool, RunError> {
        let due = self.kill_at.or_else(|| self.silence.map(|silence| silence.next_look));
        let ready = self.waiter.wait(due)?;
        let is_cut = ready.iter().any(|ready| ready.token == LIFELINE);
        if let Some(line) = self.lifeline.as_ref().filter(|_| is_cut) {
            self.kill_at = Some(Clock::now() + ABANDONED_TIME_MAX);
            self.waiter.remove(line)?;
            return Ok(true);
        }
        match due.filter(|_| ready.is_empty()) {
            None => Ok(self.hear()),
            Some(_) if self.kill_at.is_some() => {
                self.kill_abandoned();
                Ok(false)
            }
            Some(_) => self.on_silence(),
        }
    }

    /// Takes a word of the process in; false when it has ended, or needs no watch any more.
    fn hear(&mut self) -> bool {
        let mut bytes = [0; 4_096];
        match io::receive_with_descriptors(&self.socket, &mut bytes) {
            Ok((0, _)) => self.is_line_closed = true,
            Ok((len, descriptors)) => {
                self.said.hear(&bytes[..len], descriptors);
                if self.silence.is_some() || std::mem::take(&mut self.said.has_resumed) {
                    self.note_life();
                }
            }
            Err(error) if error.is_transient() => {}
            Err(_) => self.is_line_closed = true,
        }
        !self.is_line_closed
    }

    /// Number of the process, if it goes on although the line is closed: what it has set up is its own. As long as it
    /// has not said that it ends, it starts another watchdog.
    fn left_alive(&self) -> Result<Option<u32>, RunError> {
        let is_expected = !self.is_line_closed || self.said.ends || self.kill_at.is_some();
        let Some(process) = self.process.filter(|process| !is_expected && process.is_running()) else {
            return Ok(None);
        };
        if let Ok(end) = PidFd::open(process.pid()) {
            let mut waiter = Waiter::new(Duration::ZERO)?;
            waiter.add(&end, Interest::Read, 0)?;
            waiter.wait(Some(Clock::now() + END_TIME_MAX))?;
        }
        Ok(process.is_running().then_some(process.pid()))
    }

    fn kill_abandoned(&self) {
        let owner = self.record.with_file_name(OWNER);
        let owner = fs::read_to_string(owner).ok().and_then(|text| text.parse::<ProcessId>().ok());
        let kept = self.said.kept.as_ref();
        let owner = owner.or_else(|| ProcessId::of(kept?.inventory.process).ok());
        drop(owner.map(record::kill));
    }

    /// The process has shown that it is alive, or another look at it is due after as long as it may be silent.
    fn note_life(&mut self) {
        let now = Clock::now();
        self.silence = Some(Silence::begin(now, self.said.patience(self.hang_after)));
        self.running_time.iter_mut().for_each(|time| time.restart(now));
    }

    /// The process has said nothing until the next look was due; false when it does not live any more.
    fn on_silence(&mut self) -> Result<bool, RunError> {
        let Some(mut silence) = self.silence else { return Ok(true) };
        let now = Clock::now();
        let patience = self.said.patience(self.hang_after);
        let is_late = silence.note_look(now, self.hang_after / 4);
        let is_over = silence.heard >= patience.max(self.hang_after * STARVED_FACTOR);
        if is_late && !is_over {
            // This process has not run either: the machine stood still, and the silence says nothing.
            silence.restart(now, patience);
            self.silence = Some(silence);
            self.running_time.iter_mut().for_each(|time| time.restart(now));
            return Ok(true);
        }
        let passed = self.running_time.as_mut().map(|time| time.passed(now));
        if silence.is_short(patience) && !is_over {
            self.silence = Some(silence);
            return Ok(true);
        }
        let Some(remains) = Remains::of_running(self.record, &self.said) else {
            // It has given everything away, and has yet to end.
            self.note_life();
            return Ok(true);
        };
        let passed = passed.unwrap_or(patience);
        if passed < patience && !is_over {
            self.await_processor(silence, patience - passed);
            return Ok(true);
        }
        let kept = self.said.kept.as_ref().filter(|_| self.said.may_be_succeeded());
        if kept.is_some_and(|kept| death::fence(kept, &remains, &self.socket)) {
            self.said.has_hung = true;
            return Ok(false);
        }
        self.take_steering_away(&remains)?;
        Ok(true)
    }

    /// The process has no processor, and could have been silent for `left` more: packets wait for it.
    fn await_processor(&mut self, mut silence: Silence, left: Duration) {
        if let Some(kept) = &self.said.kept {
            // Where it is too late for that, they go past it already, which it will see.
            kept.beat_in_time(self.hang_after);
        }
        if let Some(time) = self.running_time.as_ref().filter(|_| !silence.is_told) {
            silence.is_told = true;
            let text = format!("process {} waits for a processor: it is no hang", time.process());
            log::warn(&text);
        }
        silence.next_look = silence.looked_at + left.min(STARVED_LOOK);
        self.silence = Some(silence);
    }

    /// Lets packets go past the process, and tells it so.
    fn take_steering_away(&mut self, remains: &Remains) -> Result<(), RunError> {
        self.silence = None;
        let table_owner = self.said.kept.as_ref().and_then(|kept| kept.table_owner.as_ref());
        let table = table_owner.and_then(|owner| remains.record.owned_table(owner));
        // Without rules, but with the table, addresses would not be translated.
        drop(table.as_ref().map(notrack::close));
        let result = remains.record.undo_steering(&self.netlink);
        // One that is gone is as it should be.
        let result = result.and(table.map_or(Ok(()), |table| table.delete()));
        drop(self.socket.write(&[REMOVED]));
        let instead = match (remains.record.is_inline, &remains.record.bridge) {
            (false, _) => "TCP is forwarded without acceleration",
            (true, Some(_)) => "the kernel bridges",
            (true, None) => "the wire is cut",
        };
        let text = format!("no sign of life for {}: {instead}", self.hang_after);
        log::warn(&text);
        Ok(result?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn silence_counts_as_far_as_somebody_was_there_to_hear_it() {
        let at = Instant::from_millis;
        let mut silence = Silence::begin(at(0), ms(1_000));
        assert!(!silence.note_look(at(700), ms(250)));
        assert_eq!(silence.heard, ms(700));
        silence.next_look = at(720);
        assert!(silence.note_look(at(61_100), ms(250)), "the machine stood still");
        assert_eq!(silence.heard, ms(970));
        silence.restart(at(61_100), ms(1_000));
        assert_eq!((silence.heard, silence.since, silence.next_look), (ms(970), at(61_100), at(61_600)));
    }

    #[test]
    fn whoever_is_silent_is_looked_at_several_times_before_that_counts() {
        let mut silence = Silence::begin(Instant::ZERO, ms(750));
        let mut looks = 0;
        while {
            assert!(!silence.note_look(silence.next_look, ms(250)));
            silence.is_short(ms(750))
        } {
            looks += 1;
        }
        assert_eq!((looks, silence.looked_at, silence.heard), (8, Instant::ZERO + ms(750), ms(750)));
    }
}
