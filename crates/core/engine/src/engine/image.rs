//! An engine as bytes, and an engine that goes on where another one has stopped.

use stored::{Reader, Stored, Writer};
use tcp::Ring;

use super::Engine;
use crate::direction::Direction;
use crate::half::Half;
use crate::image::{IMAGE_VERSION, IMAGE_VERSION_OLDEST, ImageError, MAGIC};

impl Engine {
    /// Everything the flows need to go on in another engine, in another process.
    ///
    /// Between two calls, whatever they were. Held data that lies in memory which outlives the process
    /// ([`crate::RingProvider::place_of`]) is named by its place; other held data is part of it.
    #[must_use]
    pub fn store(&self) -> Vec<u8> {
        let mut image = Vec::new();
        self.store_to(&mut |piece| image.extend_from_slice(piece));
        image
    }

    /// The same in pieces, one after the other, to `take`.
    pub fn store_to(&self, take: &mut dyn FnMut(&[u8])) {
        let mut out = Writer::default();
        out.bytes(&MAGIC);
        IMAGE_VERSION.store(&mut out);
        self.wired_mtu.store(&mut out);
        self.down.store(&mut out, take);
        self.up.is_some().store(&mut out);
        if let Some(up) = &self.up {
            up.store(&mut out, take);
        }
        out.hand_on_rest(take);
    }

    /// Has the tables for about `flows` flows ready: an engine that is about to [`Engine::resume`] makes them
    /// before any packet waits for it.
    pub fn prepare_for(&mut self, flows: usize) {
        self.down.prepare_for(flows);
        if let Some(up) = self.up.as_mut() {
            up.prepare_for(flows);
        }
    }

    /// Goes on where the engine has stopped whose state `image` is; this one must not have had a flow yet.
    ///
    /// The settings of this engine hold from here on, as after [`Engine::reconfigure`]. Held data is taken
    /// over from the provider of rings, which has to be set before. Next
    /// it gets journals, and [`Engine::note_flows`].
    ///
    /// # Errors
    /// What cannot be taken over. The engine is then of no use any more, and the one before may go on.
    pub fn resume(&mut self, image: &[u8]) -> Result<(), ImageError> {
        if !self.is_empty() {
            return Err(ImageError::NotEmpty);
        }
        let body = image.strip_prefix(&MAGIC).ok_or(ImageError::Foreign)?;
        let version = Reader::new(0, body).value::<u16>()?;
        if !(IMAGE_VERSION_OLDEST..=IMAGE_VERSION).contains(&version) {
            return Err(ImageError::Version { found: version });
        }
        let origin: Ring = self.down.ring_origin();
        let mut from = Reader::new(version, body).within(&origin);
        from.value::<u16>()?;
        self.resume_halves(&mut from)?;
        Ok(from.finish()?)
    }

    /// Resumes the halves: flows of uploads go on, even if this engine's settings do not accelerate uploads.
    fn resume_halves(&mut self, from: &mut Reader<'_>) -> Result<(), ImageError> {
        self.wired_mtu = from.value()?;
        self.down.resume(from)?;
        if from.value::<bool>()? {
            if self.up.is_none() {
                let mut up = Half::new(Direction::Uplink, self.config().of_uplink())?;
                up.set_ring_origin(self.down.ring_origin());
                if let Some(advice) = self.memory_advice {
                    up.set_memory_advice(advice);
                }
                self.up = Some(Box::new(up));
            }
            if let Some(up) = self.up.as_mut() {
                up.resume(from)?;
            }
        }
        Ok(())
    }
}
