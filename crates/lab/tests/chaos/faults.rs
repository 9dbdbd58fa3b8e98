//! [`Fault`]: what an operator, a cable or a machine does to the box.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::chaos::accelerator::{Accelerator, Options, SIGCONT, SIGHUP, SIGKILL, SIGSTOP, SIGTERM, Way};
use crate::chaos::network::{Network, Side};

/// One kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    KillBox,
    KillWatchdog,
    KillBoth,
    Drain,
    Terminate,
    Replace,
    Hangup,
    Stop,
    DownUp,
    Remake,
    Renumber,
    Mtu,
    /// Of the box's end of a cable alone: what is too long for it is lost without a word, whatever
    /// stands there.
    MtuOfBox,
}

impl Fault {
    /// Those that no transfer may suffer from.
    pub const ALL: [Self; 12] = [
        Self::KillBox,
        Self::KillWatchdog,
        Self::KillBoth,
        Self::Drain,
        Self::Terminate,
        Self::Replace,
        Self::Hangup,
        Self::Stop,
        Self::DownUp,
        Self::Remake,
        Self::Renumber,
        Self::Mtu,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::KillBox => "kill-box",
            Self::KillWatchdog => "kill-watchdog",
            Self::KillBoth => "kill-both",
            Self::Drain => "drain",
            Self::Terminate => "terminate",
            Self::Replace => "replace",
            Self::Hangup => "hangup",
            Self::Stop => "stop",
            Self::DownUp => "down-up",
            Self::Remake => "remake",
            Self::Renumber => "renumber",
            Self::Mtu => "mtu",
            Self::MtuOfBox => "mtu-of-box",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain([Self::MtuOfBox]).find(|fault| fault.name() == name)
    }

    /// It happens to the network, so it can happen without a box too.
    pub const fn is_of_network(self) -> bool {
        matches!(self, Self::DownUp | Self::Remake | Self::Renumber | Self::Mtu | Self::MtuOfBox)
    }

    /// What was owed died with the box: such flows are reset.
    pub const fn may_reset(self) -> bool {
        matches!(self, Self::KillBox | Self::KillBoth | Self::Stop)
    }

    /// False where it means nothing.
    pub const fn fits(self, way: Way) -> bool {
        !(matches!(way, Way::Inline) && matches!(self, Self::Renumber))
    }
}

/// What there is to be troubled.
pub struct Scene<'a> {
    pub network: &'a mut Network,
    pub options: &'a Options,
    pub accelerator: &'a mut Option<Accelerator>,
    pub random: &'a mut Xoshiro256PlusPlus,
    /// Starts so far.
    pub starts: &'a mut u32,
    /// Longest time for which a cable or the process is away.
    pub outage_ms_max: u64,
}

impl Scene<'_> {
    pub fn pause(&mut self, ms: std::ops::Range<u64>) {
        crate::chaos::pause_ms(self.random.random_range(ms));
    }

    fn side(&mut self) -> Side {
        Side::BOTH[self.random.random_range(0..2)]
    }

    pub fn start(&mut self, replace: Option<&str>) -> Result<(), String> {
        *self.starts += 1;
        // Names are the machine's, and this test may run more than once at a time.
        let name = format!("chaos-{}-{}", std::process::id(), self.starts);
        let new = Accelerator::start(&self.network.middle, self.options, &name, replace)?;
        *self.accelerator = Some(new);
        Ok(())
    }

    /// Has the trouble happen, and be over.
    pub fn suffer(&mut self, fault: Fault) -> Result<(), String> {
        match fault {
            Fault::DownUp => {
                let side = self.side();
                self.network.set_down(side);
                self.pause(20..self.outage_ms_max);
                self.network.set_up(side);
            }
            Fault::Remake => {
                let side = self.side();
                self.network.cut_cable(side);
                self.pause(20..self.outage_ms_max);
                self.network.lay_cable(side);
                if self.accelerator.is_none() && self.options.way == Way::Inline {
                    self.network.join(side);
                }
            }
            Fault::Renumber => {
                let side = self.side();
                self.network.renumber(side);
            }
            Fault::Mtu | Fault::MtuOfBox => {
                let side = self.side();
                let mtu = [1_280, 1_400, 1_500, 2_000, 4_000, 9_000][self.random.random_range(0..6)];
                self.network.set_mtu(side, mtu, fault == Fault::Mtu);
            }
            _ => return self.suffer_in_box(fault),
        }
        Ok(())
    }

    fn suffer_in_box(&mut self, fault: Fault) -> Result<(), String> {
        let Some(mut old) = self.accelerator.take() else { return Ok(()) };
        let (name, watchdog) = (old.name().to_owned(), old.watchdog());
        match fault {
            Fault::KillWatchdog => drop(watchdog.as_ref().map(|dog| dog.send_signal(SIGKILL))),
            Fault::Hangup => old.signal(SIGHUP),
            Fault::Stop => {
                old.signal(SIGSTOP);
                // Long enough for packets to go past in most cases.
                self.pause(500..1_500 + self.outage_ms_max);
                old.signal(SIGCONT);
            }
            _ => {}
        }
        // A hang with debt was made a death, and nobody goes on.
        if fault == Fault::Stop && old.check().is_err() {
            watchdog.as_ref().map_or(Ok(()), |dog| old.await_watchdog(dog))?;
            return self.start(None);
        }
        if matches!(fault, Fault::KillWatchdog | Fault::Hangup | Fault::Stop) {
            *self.accelerator = Some(old);
            return Ok(());
        }
        match fault {
            Fault::Replace => {
                self.start(Some(&name))?;
                return old.await_end();
            }
            Fault::Drain => {
                let said = old.command(&self.network.middle, "drain", &[]);
                if !said.is_empty() {
                    crate::chaos::log(&format!("drain: {}", said.trim_end()));
                }
            }
            Fault::Terminate => old.signal(SIGTERM),
            // The watchdog is held first: killed first, the process has another one within a
            // millisecond, and killed last, it may have a successor go on.
            Fault::KillBoth => {
                drop(watchdog.as_ref().map(|dog| dog.send_signal(SIGSTOP)));
                old.signal(SIGKILL);
                drop(watchdog.as_ref().map(|dog| dog.send_signal(SIGKILL)));
            }
            _ => old.signal(SIGKILL),
        }
        old.await_end()?;
        if fault == Fault::KillBox && old.is_succeeded(watchdog.as_ref())? {
            *self.accelerator = Some(old);
            return Ok(());
        }
        self.pause(0..500);
        self.start(None)
    }
}
