//! [`Interfaces`]: the two interfaces as they are, which go down, vanish, and come back, the same
//! or made anew.

use engine::Port;
use io::IoError;
use io::netlink::{Glance, InterfaceIndex, Netlink};

use crate::Event;

/// Whether packets can pass an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Up,
    /// Switched off.
    Down,
    /// There is none of that name.
    Gone,
}

impl Condition {
    /// As in the status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Gone => "gone",
        }
    }
}

/// Change of an interface since it was looked at last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// It is down or gone.
    pub is_lost: bool,
    /// It is up, and was not.
    pub is_back: bool,
    /// It is up, and another one than before: nothing that was attached to it is any more.
    pub is_new: bool,
    /// It is up and has another MTU, in bytes.
    pub mtu: Option<u32>,
}

/// State of an interface as last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// Index of the interface when it was up last.
    index: InterfaceIndex,
    mtu: u32,
    condition: Condition,
}

/// Both: wired, mobile.
#[derive(Clone, Debug)]
pub(crate) struct Interfaces {
    names: [String; 2],
    known: [Known; 2],
}

impl Interfaces {
    /// Two that are up; whether they are is seen when they are looked at first.
    pub fn new(names: [&str; 2], up: [(InterfaceIndex, u32); 2]) -> Self {
        let known = up.map(|(index, mtu)| Known { index, mtu, condition: Condition::Up });
        Self { names: names.map(str::to_owned), known }
    }

    pub fn name(&self, side: Port) -> &str {
        &self.names[side.index()]
    }

    pub fn condition(&self, side: Port) -> Condition {
        self.known[side.index()].condition
    }

    pub fn are_up(&self) -> bool {
        Port::BOTH.iter().all(|side| self.condition(*side) == Condition::Up)
    }

    /// The number it had when it was up last.
    pub fn index(&self, side: Port) -> InterfaceIndex {
        self.known[side.index()].index
    }

    /// In bytes, when it was up last.
    pub fn mtu(&self, side: Port) -> u32 {
        self.known[side.index()].mtu
    }

    /// Looks at an interface; what has changed is told once.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn look(&mut self, side: Port, netlink: &Netlink) -> Result<Change, IoError> {
        let (name, index) = (self.name(side), self.index(side));
        // As long as it is the same one nobody is waited for: packets are.
        let found = match netlink.glance(name, index) {
            Some(glance) => Some((index, glance)),
            None => match netlink.link(name) {
                Ok(link) => Some((link.index, Glance { is_up: link.is_up, mtu: link.mtu })),
                Err(error) if error.is_not_there() => None,
                Err(error) => return Err(error),
            },
        };
        Ok(self.note(side, found))
    }

    fn note(&mut self, side: Port, found: Option<(InterfaceIndex, Glance)>) -> Change {
        let known = &mut self.known[side.index()];
        let was_up = known.condition == Condition::Up;
        let Some((index, Glance { mtu, .. })) = found.filter(|(_, glance)| glance.is_up) else {
            known.condition = if found.is_some() { Condition::Down } else { Condition::Gone };
            return Change { is_lost: was_up, ..Change::default() };
        };
        let change = Change {
            is_lost: false,
            is_back: !was_up,
            is_new: index != known.index,
            mtu: (mtu != known.mtu).then_some(mtu),
        };
        *known = Known { index, mtu, condition: Condition::Up };
        change
    }

    /// Event that tells of a change, if anything; `remedy` is what is done about one that was made anew.
    pub fn event(&self, side: Port, change: Change, remedy: &'static str) -> Option<Event> {
        let interface = self.name(side).to_owned();
        if change.is_lost {
            return Some(Event::InterfaceLost { interface, condition: self.condition(side).name() });
        }
        match (change.is_new, change.is_back) {
            (true, _) => Some(Event::InterfaceNew { interface, remedy }),
            (false, true) => Some(Event::InterfaceBack { interface }),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use io::netlink::LinkChange;
    use io::{Host, lay_cable};

    use super::*;

    #[test]
    fn what_becomes_of_an_interface_is_told_once() {
        let namespace = Host::create(&format!("ct-run-interfaces-{}", std::process::id())).unwrap();
        let netlink = namespace.netlink().unwrap();
        let lay = || {
            lay_cable([(&namespace, "w0", &[]), (&namespace, "m0", &[])]).unwrap();
            ["w0", "m0"].map(|name| (netlink.index_of(name).unwrap(), 1_500))
        };
        let first = lay();
        let mut interfaces = Interfaces::new(["w0", "m0"], first);
        let mut look = |side| {
            let change = interfaces.look(side, &netlink).unwrap();
            let line = interfaces.event(side, change, "joined").map_or(String::new(), |event| event.line());
            (change, line, interfaces.are_up())
        };
        let unchanged = (Change::default(), String::new(), true);
        assert_eq!(look(Port::Wired), unchanged);
        let down = LinkChange { up: Some(false), mtu: Some(2_000), ..LinkChange::default() };
        netlink.change_link(first[0].0, &down).unwrap();
        let (change, line, are_up) = look(Port::Wired);
        assert!(change.is_lost && !are_up && line.contains("'w0' is down"), "{line}");
        assert_eq!(look(Port::Wired).1, "", "said once");
        netlink.set_up(first[0].0).unwrap();
        let (change, line, _) = look(Port::Wired);
        assert_eq!(change, Change { is_back: true, mtu: Some(2_000), ..Change::default() });
        assert!(line.contains("'w0' is back"), "{line}");
        assert_eq!(look(Port::Wired), unchanged);

        netlink.delete_link(first[0].0).unwrap();
        let (change, line, _) = look(Port::Mobile);
        assert!(change.is_lost && line.contains("'m0' is gone"), "{line}");
        let second = lay();
        // Gone and made anew between two looks.
        let (change, line, _) = look(Port::Wired);
        assert!(change.is_new && !change.is_back && line.contains("anew"), "{line}");
        let (change, line, are_up) = look(Port::Mobile);
        assert!(change.is_new && change.is_back && are_up && line.contains("anew"), "{line}");
        assert_eq!((interfaces.index(Port::Mobile), interfaces.mtu(Port::Wired)), (second[1].0, 1_500));
    }
}
