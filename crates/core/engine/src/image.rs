//! Form of an engine's stored state ([`crate::Engine::store`], [`crate::Engine::resume`]).
//!
//! ```text
//!   CELLFLOW │ version, 16 bits │ wired MTU │ downlink half │ 0, or 1 and the uplink half
//!
//!   half: controller's settings │ draining, MTU │ counters │ flows │ subscribers │ paths │ pool │ timers │
//!         lists of flows with something to make │ subscribers in line │ flow not in the table │
//!         flows passed last │ segments that did not fit │ handshakes under way │ what passes to others
//! ```
//!
//! | version | what is new |
//! |---|---|
//! | 1 | |
//! | 2 | the flows passed last, with the reason |
//! | 3 | how much each side has acknowledged and allowed; which segment told a window; the time that a source has taken |
//! | 4 | handshakes under way apart from the flows; offers of accurate ECN in them; what does not fit young flows; what passes in turns |
//! | 5 | counters of what passes, by subscriber, and of echo requests |
//! | 6 | versions and handshakes of QUIC; by whom flows were opened |
//! | 7 | accurate ECN: what hosts tell each other of marks |
//! | 8 | marks on the way to clients |
//!
//! What a flow is made of derives [`stored::Stored`]: the definitions are the format. It stands as text in
//! `half/tests/image-version-8.txt`, with which a test compares them.

use stored::StoredError;

use crate::config::ConfigError;

/// The version that [`crate::Engine::store`] writes. It grows with every change of what is stored.
pub const IMAGE_VERSION: u16 = 8;

/// The oldest version that [`crate::Engine::resume`] reads.
pub const IMAGE_VERSION_OLDEST: u16 = 4;

/// Bytes that it begins with.
pub(crate) const MAGIC: [u8; 8] = *b"CELLFLOW";

/// A state that cannot be taken over.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ImageError {
    /// It does not begin as one.
    #[error("this is no stored state of an accelerator")]
    Foreign,
    /// Another version has written it.
    #[error(
        "the stored state has version {found}; this program reads versions {IMAGE_VERSION_OLDEST} to {IMAGE_VERSION}"
    )]
    Version {
        /// The version it says.
        found: u16,
    },
    /// It is damaged.
    #[error(transparent)]
    Damaged(#[from] StoredError),
    /// The settings for uploads, of which it has some, make no sense.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// The engine has flows of its own already.
    #[error("an engine that has flows cannot take over those of another one")]
    NotEmpty,
}
