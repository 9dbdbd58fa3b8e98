//! Reports of the base stations to the middlebox.

use control::Feedback;
use link::{BaseStation, BaseStationConfig, StationReport};
use units::{Instant, Rate};

use super::{Network, RadioConfig};
use crate::{MiddleboxUnderTest, SimError, Violation};

/// The station of a radio link, if there are to be any.
pub(super) fn station(
    config: Option<BaseStationConfig>,
    radio: &RadioConfig,
    start: Instant,
) -> Result<Option<BaseStation>, SimError> {
    let station = config.map(|config| BaseStation::new(config, radio.down.link.seed, start));
    station.transpose().map_err(|source| SimError::Link { place: "base station", source })
}

impl<M: MiddleboxUnderTest> Network<M> {
    /// Lets the stations measure, and hands on what has arrived of their reports.
    pub(super) fn report(&mut self) -> Result<(), Violation> {
        let now = self.now;
        let mut from = 0;
        while let Some(index) = self.due.stations.next_due(from, now) {
            from = index + 1;
            let radio = &mut self.radios[index];
            let Some(station) = radio.station.as_mut() else { continue };
            station.measure(radio.down.link_mut(), now);
            let arrived: Vec<StationReport> = core::iter::from_fn(|| station.poll(now)).collect();
            self.due.stations.set(index, self.radios[index].next_report());
            self.renew_radio(index);
            for report in arrived {
                self.hand_on(index, &report);
                self.send_from_middlebox()?;
            }
        }
        Ok(())
    }

    fn hand_on(&mut self, radio: usize, report: &StationReport) {
        let feedback = Feedback {
            now: self.now,
            age: self.now.saturating_since(report.measured_at),
            bandwidth: Some(report.bandwidth).filter(|&rate| rate != Rate::MAX),
            is_throughput: false,
            queue: Some(report.queue),
            validity: report.validity,
        };
        let behind = self.radio_of.iter().zip(&self.clients).filter(|(of, _)| **of == radio);
        let mut clients: Vec<_> = behind.map(|(_, client)| client.config().local.ip()).collect();
        clients.sort_unstable();
        clients.dedup();
        for client in clients {
            self.middlebox.handle_feedback(client, &feedback);
        }
    }
}
