//! Virtual-time network of endpoints, links and the engine.
