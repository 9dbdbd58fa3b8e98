//! Rate and window controllers, and the samplers they share.
