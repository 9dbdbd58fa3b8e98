//! [`Splitter`]: the program of a comparison, loaded, and at work on new connections.

use std::path::Path;

use io::bpf::{Attachment, Load, Object};
use io::{IoError, Namespace};

use super::layout::{Constants, Counts, Measured};
use crate::chooser::open_group;
use crate::split::Split;

/// `bpf/compare.bpf.c`, compiled; nothing loads it where there is none.
#[cfg(not(feature = "bpf"))]
static ELF: &[u8] = &[];
/// `bpf/compare.bpf.c`, compiled.
#[cfg(feature = "bpf")]
static ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/compare.bpf.o"));
/// The only element of an array.
const FIRST: [u8; 4] = [0; 4];

/// The program; all of it ends with the value, and with the process.
#[derive(Debug)]
pub(super) struct Splitter {
    object: Object,
    attachment: Option<Attachment>,
}

impl Splitter {
    /// Has the kernel verify and translate it for this network namespace.
    pub(super) fn load(
        split: Split,
        local_port: Option<u16>,
        has_mptcp: bool,
        controls: [&str; 2],
    ) -> Result<Self, IoError> {
        let network = Namespace::current()?.cookie()?;
        Self::load_also(&Constants { split, network, local_port, has_mptcp, controls }, &[])
    }

    fn load_also(constants: &Constants<'_>, also: &[&str]) -> Result<Self, IoError> {
        io::bpf::require_objects("compare congestion controls")?;
        io::features::require(io::features::Feature::Bpf)?;
        let constants = constants.bytes();
        let load = Load { name: "compare", elf: ELF, constants: &constants, also, ..Load::default() };
        Ok(Self { object: Object::load_with(&load)?, attachment: None })
    }

    /// From now on it decides of new connections of processes in `group`, by default of all.
    pub(super) fn attach(&mut self, group: Option<&Path>) -> Result<(), IoError> {
        self.attachment = Some(self.object.attach_to_group("compare", &open_group(group)?)?);
        Ok(())
    }

    /// From now on it neither decides nor measures.
    pub(super) fn detach(&mut self) {
        self.attachment = None;
    }

    /// Counts so far.
    pub(super) fn counts(&self) -> Result<Counts, IoError> {
        Ok(Counts::read(&self.object.map(".bss")?.get(&FIRST)?.unwrap_or_default()))
    }

    /// The connections that have ended since the last call.
    pub(super) fn take_ended(&self) -> Result<Vec<Measured>, IoError> {
        let mut found = Vec::new();
        self.object.map("ended")?.drain(|bytes| found.extend(Measured::read(bytes)))?;
        Ok(found)
    }

    /// The connections that go on, as they were at their last round trip.
    pub(super) fn running(&self) -> Result<Vec<Measured>, IoError> {
        let elements = self.object.map("running")?.elements();
        Ok(elements.iter().filter_map(|(_, value)| Measured::read(value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{MEASURED_LEN, word};
    use super::*;
    use crate::split::{ENDS_LEN, Ends, Group, Unit};

    fn is_possible() -> bool {
        let needs = io::bpf::congestion_controls(None)
            .and_then(|_| io::features::require(io::features::Feature::Bpf));
        needs.inspect_err(|error| eprintln!("left out: {error}")).is_ok()
    }

    #[test]
    fn the_verifier_takes_the_program() {
        if !is_possible() {
            return;
        }
        let has_mptcp = io::bpf::congestion_controls(None).unwrap().has_mptcp;
        for (by, local_port, has_mptcp) in
            [(Unit::Client, None, has_mptcp), (Unit::Connection, Some(443), false)]
        {
            let split = Split { seed: 1, by };
            let splitter = Splitter::load(split, local_port, has_mptcp, ["reno", "cubic"]);
            let splitter =
                splitter.unwrap_or_else(|error| panic!("{error}\n{}", error.log().unwrap_or_default()));
            let len = splitter.object.map("running").unwrap().value_len().unwrap();
            assert_eq!(len as usize, MEASURED_LEN, "as the compiler laid it out");
            assert_eq!(splitter.counts().unwrap(), Counts::default());
            assert!(splitter.running().unwrap().is_empty() && splitter.take_ended().unwrap().is_empty());
        }
    }

    #[test]
    fn the_kernels_half_is_the_references() {
        if !is_possible() {
            return;
        }
        for by in [Unit::Client, Unit::Connection] {
            let split = Split { seed: 0x0123_4567_89ab_cdef, by };
            let constants = Constants {
                split,
                network: 0,
                local_port: None,
                has_mptcp: false,
                controls: ["reno", "cubic"],
            };
            let splitter = Splitter::load_also(&constants, &["compare_trial"]).unwrap();
            let trials = splitter.object.map("trials").unwrap();
            assert_eq!(trials.value_len().unwrap() as usize, ENDS_LEN + 8, "as the compiler laid it out");
            let mut counts = [0; 2];
            for n in 0..512_u64 {
                let wide = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let ends = Ends {
                    network: wide,
                    host: n,
                    is_ipv6: n & 1,
                    ports: 443 << 32 | (40_000 + n),
                    own_network: !wide,
                    own_host: n * 7,
                };
                trials.set(&FIRST, &[ends.bytes(), vec![0xff; 8]].concat()).unwrap();
                splitter.object.test("compare_trial", &[0; 64]).unwrap();
                let group = word(&trials.get(&FIRST).unwrap().unwrap(), ENDS_LEN / 8);
                let reference = split.of(&ends);
                assert_eq!(Group::ALL.get(group as usize), Some(&reference), "{ends:?}");
                counts[group as usize] += 1;
            }
            assert!(counts.iter().all(|count| *count > 128), "{counts:?}");
        }
    }
}
