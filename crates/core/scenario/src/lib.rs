//! Scenario files: networks, workloads and cases, shared by the lab (real time) and the simulator
//! (virtual time).
//!
//! A file is TOML. Quantities carry their unit as text ([`Quantity`]), unknown keys are refused with the
//! list of known ones, and a `[[case]]` names only what it changes. [`results`] is what comes out: the same
//! document whichever runner made it.

mod beside;
mod case;
mod choice;
mod endpoints;
mod error;
mod family;
mod feedback;
pub mod figures;
mod file;
mod grid;
mod links;
mod merge;
mod moves;
mod multi_path;
pub mod multi_path_results;
mod parameter;
mod quantity;
mod radio;
pub mod results;
pub mod segments;
mod server;

pub use beside::{Beside, BesideKind};
pub use case::Case;
pub use choice::{CongestionControl, Controller};
pub use endpoints::{Accelerator, Client, ConnectionEnd, DrwaVariant, Kind, Reset, TakesBeyond, Workload};
pub use error::Error;
pub use family::Family;
pub use feedback::Feedback;
pub use file::Scenario;
pub use links::{LinkPlan, ReadTrace};
pub use moves::{MoveScheme, Moves, MovesCase, Subscriber, Traffic};
pub use multi_path::{MultiPath, MultiPathCase, RadioDoes, RadioEvent, RadioLinks, RadioPath, Strips};
pub use parameter::parameter_value;
pub use quantity::{Kind as QuantityKind, Probability, Quantity, QuantityError, QueueLimit};
pub use radio::{
    Arma, BurstLoss, Fades, Frame, Grants, Harq, Management, ManagementLaw, Outage, Policer, PresetName,
    Radio, RadioDirection, Redraw, Step, Wan,
};
pub use server::Server;
pub use tcp::WindowPolicy;
