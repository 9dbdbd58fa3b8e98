//! [`Buffers`]: the kernel's receive buffers, raised out of the window's way, and put back.
//!
//! A receiver never advertises more than its buffer allows. So the static maximum (`tcp_rmem`'s third
//! number) would be what limits throughput in networks with a large delay bandwidth product (\[DR\]).

use io::{IoError, sysctl};
use serde::{Deserialize, Serialize};
use units::Bytes;

/// IPv6 uses it too.
const TCP_RMEM: &str = "net/ipv4/tcp_rmem";
/// Without it the kernel would never use more than the second number.
const MODERATE: &str = "net/ipv4/tcp_moderate_rcvbuf";

/// Settings of this network namespace as they were, and as they were set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffers {
    /// Path below `/proc/sys`, value before, value set.
    pub changed: Vec<(String, String, String)>,
}

/// Outcome for a setting that was to be put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Path below `/proc/sys`.
    pub path: String,
    /// Value that it has.
    pub value: String,
}

impl Buffers {
    /// Settings that would be changed to let receive buffers grow up to `most`; nothing is smaller than before.
    ///
    /// # Errors
    /// When the kernel has no such settings.
    pub fn plan(most: Bytes) -> Result<Self, IoError> {
        let mut changed = Vec::new();
        let memory = sysctl::read_here(TCP_RMEM)?;
        let numbers: Vec<u64> = memory.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        if let [least, first, max] = numbers[..]
            && max < most.get()
        {
            changed.push((TCP_RMEM.to_owned(), memory, format!("{least}\t{first}\t{}", most.get())));
        }
        let moderate = sysctl::read_here(MODERATE)?;
        if moderate == "0" {
            changed.push((MODERATE.to_owned(), moderate, "1".to_owned()));
        }
        Ok(Self { changed })
    }

    /// Sets it; connections that begin from now on have it.
    ///
    /// # Errors
    /// When the privilege is missing.
    pub fn set(&self) -> Result<(), IoError> {
        self.changed.iter().try_for_each(|(path, _, new)| sysctl::write_here(path, new))
    }

    /// Puts back what still is as it was set; what somebody else has changed since stays.
    #[must_use]
    pub fn restore(&self) -> Vec<Kept> {
        let mut kept = Vec::new();
        for (path, old, new) in &self.changed {
            match sysctl::read_here(path) {
                Ok(value) if is_same(&value, new) => {
                    if let Err(error) = sysctl::write_here(path, old) {
                        kept.push(Kept { path: path.clone(), value: error.to_string() });
                    }
                }
                Ok(value) if is_same(&value, old) => {}
                Ok(value) => kept.push(Kept { path: path.clone(), value }),
                // The namespace has none: there is nothing to put back.
                Err(_) => {}
            }
        }
        kept
    }
}

fn is_same(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}
