//! [`Tcx`]: the steering by programs at the interfaces.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use engine::Port;
use io::IoError;
use io::bpf::{Attachment, Program, SharedArray};
use io::netlink::{InterfaceIndex, Netlink};
use units::Duration;

use super::bypass::{Bypass, LINE_WORDS, PassedMap, REASONS_WORD};
use super::program::{self, Maps, Spec};
use crate::lasting::LastingPrograms;
use crate::plan::Plan;

/// Subscribers without a schedule whose traffic is counted; of more, those that were silent for longest are forgotten.
const TRICKLES_MAX: u32 = 16_384;

/// One program, and the interface it is for.
#[derive(Debug)]
struct Loaded {
    program: Program,
    interface: InterfaceIndex,
    /// At a device of the instance before.
    is_chain: bool,
}

/// The programs: loaded; attached as long as they are to steer.
#[derive(Debug)]
pub(crate) struct Tcx {
    bypass: Arc<Bypass>,
    loaded: Vec<Loaded>,
    attached: Vec<Attachment>,
    chained: Vec<Attachment>,
    hang_after: Duration,
    tuns: [InterfaceIndex; 2],
}

/// Settings that all programs have in common.
#[derive(Clone, Copy, Debug)]
struct Terms {
    hang_after: Duration,
    /// The devices they redirect into.
    tuns: [InterfaceIndex; 2],
    /// The instance before is there, if there was one.
    is_chained: bool,
}

fn load_programs(
    bypass: &Bypass,
    plan: &Plan,
    terms: Terms,
    netlink: &Netlink,
) -> Result<Vec<Loaded>, IoError> {
    let [wired, mobile] =
        [Port::Wired, Port::Mobile].map(|side| netlink.index_of(&plan.side(side).interface));
    let outer = [wired?, mobile?];
    let mut places = vec![
        (Port::Wired, outer[0], plan.strict_interfaces[0], false),
        (Port::Mobile, outer[1], plan.strict_interfaces[1], false),
    ];
    if let Some(before) = plan.predecessor.as_ref().filter(|_| terms.is_chained) {
        // What it writes into its mobile device came from the servers.
        let [wired, mobile] = &before.tuns;
        places.push((Port::Wired, netlink.index_of(mobile)?, false, true));
        places.push((Port::Mobile, netlink.index_of(wired)?, false, true));
    }
    // The programs keep it.
    let trickles = PassedMap::create("cell_trickles", TRICKLES_MAX)?;
    let mut loaded = Vec::new();
    for (number, (from, interface, checks_reverse_path, is_chain)) in places.into_iter().enumerate() {
        let counters = (LINE_WORDS * size_of::<u64>() * (1 + number)) as i32;
        let spec = Spec {
            from,
            interface,
            leaves_through: outer[from.opposite().index()],
            tun: terms.tuns[from.index()],
            checks_reverse_path,
            hang_after: terms.hang_after,
            counters,
            reasons: (REASONS_WORD * size_of::<u64>()) as i32,
            ipv6_prefix_len: plan.ipv6_prefix_len,
            counts_datagrams: plan.counts_datagrams,
        };
        let maps = Maps { passed: &bypass.passed, shared: &bypass.shared, trickles: &trickles };
        let program = Program::load(program::NAME, &program::assemble(&spec, maps)?)?;
        loaded.push(Loaded { program, interface, is_chain });
    }
    Ok(loaded)
}

impl Tcx {
    /// Makes the maps and loads the programs that redirect into `tuns`; nothing is steered yet.
    pub fn load(
        plan: &Plan,
        hang_after: Duration,
        tuns: [InterfaceIndex; 2],
        netlink: &Netlink,
    ) -> Result<Self, IoError> {
        let (bypass, terms) = (Arc::new(Bypass::create()?), Terms { hang_after, tuns, is_chained: true });
        let loaded = load_programs(&bypass, plan, terms, netlink)?;
        Ok(Self { bypass, loaded, attached: Vec::new(), chained: Vec::new(), hang_after, tuns })
    }

    /// Loads and attaches all of them anew: an interface has another number, which each of them has
    /// in it. What is there goes when the new ones work; where they fail everything is as before.
    pub fn reload(&mut self, plan: &Plan, netlink: &Netlink) -> Result<(), IoError> {
        let Self { hang_after, tuns, .. } = *self;
        let bypass = Arc::clone(&self.bypass);
        let terms = Terms { hang_after, tuns, is_chained: !self.chained.is_empty() };
        let loaded = load_programs(&bypass, plan, terms, netlink)?;
        let mut new = Self { bypass, loaded, attached: Vec::new(), chained: Vec::new(), hang_after, tuns };
        new.attach()?;
        *self = new;
        Ok(())
    }

    /// Sets the programs to work, those of the chain first: no packet is to pass one instance only.
    pub fn attach(&mut self) -> Result<(), IoError> {
        self.beat();
        for is_chain in [true, false] {
            for one in self.loaded.iter().filter(|one| one.is_chain == is_chain) {
                match one.program.attach(one.interface) {
                    Ok(attachment) if is_chain => self.chained.push(attachment),
                    Ok(attachment) => self.attached.push(attachment),
                    // The instance before owed little and has ended already, its devices with it.
                    Err(error) if is_chain && error.is_not_there() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The programs of another process, as they are at work, with what they share: that one's until
    /// [`Tcx::own`].
    ///
    /// # Errors
    /// When what they share is not what programs of this version share.
    pub fn inherit(
        hang_after: Duration,
        tuns: [InterfaceIndex; 2],
        links: Vec<OwnedFd>,
        (shared, passed): (SharedArray, OwnedFd),
    ) -> Result<Self, IoError> {
        let bypass = Bypass::adopt(passed, shared)?;
        let attached = links.into_iter().map(Attachment::adopt).collect();
        let bypass = Arc::new(bypass);
        Ok(Self { bypass, loaded: Vec::new(), attached, chained: Vec::new(), hang_after, tuns })
    }

    /// Resources that have to last for the programs to go on.
    pub fn lasting(&self) -> LastingPrograms<'_> {
        let Bypass { passed, shared, .. } = &*self.bypass;
        LastingPrograms {
            links: self.attached.iter().map(AsFd::as_fd).collect(),
            passed: Some(passed.as_fd()),
            shared: (shared.as_fd(), shared.words().len()),
        }
    }

    /// The packet loop is alive.
    pub fn beat(&self) {
        self.bypass.beat();
    }

    /// True when the programs have let packets pass since the packet loop has shown that it is alive.
    pub fn has_let_pass(&self) -> bool {
        self.bypass.is_silent_for(self.hang_after)
    }

    /// The instance before has ended.
    pub fn unchain(&mut self) {
        self.chained.clear();
    }

    /// Nothing is steered from here on.
    pub fn detach(&mut self) {
        self.attached.clear();
        self.chained.clear();
    }

    /// Takes ownership of what was inherited.
    pub fn own(&mut self) {
        // This process looks for itself whether a filter is against it.
        self.bypass.refuse_new_flows(false);
        self.attached.iter_mut().for_each(Attachment::own);
    }

    /// Leaves the programs at work for another process.
    pub fn leave(self) {
        self.attached.into_iter().chain(self.chained).for_each(Attachment::leave);
    }

    /// The flows that the kernel forwards past us.
    pub fn bypass(&self) -> &Arc<Bypass> {
        &self.bypass
    }
}
