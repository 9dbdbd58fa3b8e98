//! The engine as a [`Middlebox`].
