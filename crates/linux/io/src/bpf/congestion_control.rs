//! [`CongestionControl`]: a congestion control of a compiled object; [`choose_congestion_control`]: instructions by
//! which a connection uses one.

use super::load::NAME_LEN;
use super::{Assembler, Helper, Load, MapView, Object, Register, Registered, Width};
use crate::IoError;

/// `IPPROTO_TCP`, `TCP_CONGESTION`.
const LEVEL: i32 = 6;
const TCP_CONGESTION: i32 = 13;
/// The only element of an array.
const FIRST: [u8; 4] = [0; 4];

/// Congestion control of a compiled object, loaded; its programs go with the value, once no socket uses it.
///
/// The object has, for tests, a ring buffer `events`, an array `trials`, and in `.bss` the number of its sockets and
/// that of the events that found no room.
#[derive(Debug)]
pub struct CongestionControl {
    object: Object,
    /// Map of the congestion control in the object.
    control: &'static str,
    name: String,
    registered: Option<Registered>,
}

impl CongestionControl {
    /// Loads what `load` says, and of its congestion controls the one in the map `control`, which the kernel is to know by
    /// `name`, at most 15 bytes.
    ///
    /// # Errors
    /// When the privilege is missing, or the kernel's verifier refuses: with its log ([`IoError::log`]).
    pub fn load(load: &Load<'_>, control: &'static str, name: &str) -> Result<Self, IoError> {
        let object = Object::load_with(&Load { congestion_control: Some((control, name)), ..*load })?;
        Ok(Self { object, control, name: name.to_owned(), registered: None })
    }

    /// Registers it with the kernel, for all network namespaces, until the value goes.
    ///
    /// # Errors
    /// When one of that name is there ([`IoError::is_already_there`]).
    pub fn register(&mut self) -> Result<(), IoError> {
        self.registered = Some(self.object.register(self.control)?);
        Ok(())
    }

    /// Name by which the kernel knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Map of the object.
    ///
    /// # Errors
    /// When it has none of that name, or the kernel refuses.
    pub fn map(&self, name: &str) -> Result<MapView, IoError> {
        self.object.map(name)
    }

    /// Hands each event since the last call to `take`, and gives the number of events that found no room so far.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn drain_events(&self, take: impl FnMut(&[u8])) -> Result<u64, IoError> {
        self.object.map("events")?.drain(take)?;
        let globals = self.object.map(".bss")?.get(&FIRST)?.unwrap_or_default();
        // Behind the number of sockets.
        Ok(globals.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes))
    }

    /// Bytes of `trial` after the program called `program` has handled it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attempt(&self, program: &str, trial: &[u8]) -> Result<Vec<u8>, IoError> {
        let trials = self.object.map("trials")?;
        trials.set(&FIRST, trial)?;
        // Any frame will do.
        self.object.test(program, &[0; 64])?;
        Ok(trials.get(&FIRST)?.unwrap_or_default())
    }
}

/// Instructions by which the connection of a `sock_ops` program uses the congestion control `name`, with the context in
/// R6. What the kernel refuses stays as it is.
pub fn choose_congestion_control(a: &mut Assembler, name: &str) {
    use Register::{R1, R2, R3, R4, R5, R6, R10};
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(NAME_LEN, 0);
    for (word, offset) in bytes.chunks_exact(4).zip((-16_i16..).step_by(4)) {
        let word = i32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        a.store_number(Width::Word, R10, offset, word);
    }
    a.copy(R1, R6);
    a.set(R2, LEVEL);
    a.set(R3, TCP_CONGESTION);
    a.point(R4, R10, -16);
    a.set(R5, NAME_LEN as i32);
    a.call(Helper::SetSocketOption);
}
