//! [`TraceSource`]: a capacity trace by name, as a file or a preset.

use std::path::Path;
use std::sync::Arc;

use link::{LinkDirection, Preset, Trace};
use units::Duration;

use crate::ContestError;

/// Capacity of the radio link in a contest.
#[derive(Clone, Debug)]
pub struct TraceSource {
    /// Name in results: the file's name without its folder.
    pub name: String,
    /// Towards the client.
    pub down: Arc<Trace>,
    /// From the client; none for a rate that is never in the way.
    pub up: Option<Arc<Trace>>,
    /// A seed had a part in it.
    pub is_drawn: bool,
}

/// Length by which a trace of a preset exceeds what is needed.
const PRESET_MARGIN: Duration = Duration::from_secs(60);

impl TraceSource {
    /// The trace `text` asks for: a file, or a preset, or two of them with a plus sign between, the second
    /// for the uplink. A file is in Mahimahi's format, or has lines of `seconds Mbit/s`.
    ///
    /// `from` is cut off at the front; a preset is made for `length` and a minute more with `seed`.
    ///
    /// # Errors
    /// A file that cannot be read, or is no trace.
    pub fn open(text: &str, from: Duration, length: Duration, seed: u64) -> Result<Self, ContestError> {
        let (down, up) = text.split_once('+').map_or((text, None), |(down, up)| (down, Some(up)));
        let read = |name: &str, direction: LinkDirection| {
            let wrong = |problem: String| ContestError::Trace { name: name.to_owned(), problem };
            let trace = match preset(name) {
                Some(preset) => preset
                    .generate(direction, from + length + PRESET_MARGIN, seed)
                    .map_err(|e| wrong(e.to_string())),
                None => std::fs::read_to_string(name)
                    .map_err(|e| wrong(format!("{e}; it is no preset either ({})", preset_names())))
                    .and_then(|text| Trace::parse(&text, name).map_err(|e| wrong(e.to_string()))),
            }?;
            cut(&trace, from).map(Arc::new).map_err(|e| wrong(e.to_string()))
        };
        let name = Path::new(down).file_name().map_or(down.into(), |name| name.to_string_lossy());
        Ok(Self {
            name: name.into_owned(),
            down: read(down, LinkDirection::Down)?,
            up: up.map(|up| read(up, LinkDirection::Up)).transpose()?,
            is_drawn: [Some(down), up].into_iter().flatten().any(|name| preset(name).is_some()),
        })
    }

    /// The same for each of `seeds`: one trace for all where none is a preset.
    ///
    /// # Errors
    /// As [`TraceSource::open`].
    pub fn open_all(
        text: &str,
        from: Duration,
        length: Duration,
        seeds: &[u64],
    ) -> Result<Vec<Self>, ContestError> {
        let (first, others) = seeds.split_first().unwrap_or((&1, &[]));
        let first = Self::open(text, from, length, *first)?;
        let others = if first.is_drawn { others } else { &[] };
        let others = others.iter().map(|seed| Self::open(text, from, length, *seed));
        core::iter::once(Ok(first)).chain(others).collect()
    }
}

/// The preset of that name, unless there is such a file.
fn preset(name: &str) -> Option<Preset> {
    Preset::from_name(name).filter(|_| !Path::new(name).exists())
}

fn preset_names() -> String {
    Preset::ALL.map(Preset::name).join(", ")
}

/// `trace` from `from` on; what was cut off comes at the end.
fn cut(trace: &Trace, from: Duration) -> Result<Trace, link::LinkError> {
    let period = trace.period().as_millis();
    let from = from.as_millis() % period;
    if from == 0 {
        return Ok(trace.clone());
    }
    let all = || trace.busy_ms().flat_map(|(ms, count)| (0..count).map(move |_| ms));
    let kept = all().filter(|ms| *ms > from).map(|ms| ms - from);
    let moved = all().filter(|ms| *ms <= from).map(|ms| ms + period - from);
    Trace::from_opportunities_ms(kept.chain(moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_comes_at_the_end() {
        let trace = Trace::from_opportunities_ms([1, 3, 3, 8, 10]).unwrap();
        let cut = cut(&trace, Duration::from_millis(3)).unwrap();
        assert_eq!(cut.busy_ms().collect::<Vec<_>>(), [(5, 1), (7, 1), (8, 1), (10, 2)]);
    }

    #[test]
    fn presets_are_made_and_what_is_missing_is_named() {
        let ms = |n| Duration::from_secs(n);
        let preset = TraceSource::open("4g-lte+4g-lte", ms(0), ms(5), 3).unwrap();
        assert_eq!((preset.name.as_str(), preset.up.is_some()), ("4g-lte", true));
        assert_ne!(Some(preset.down), preset.up);
        let all = TraceSource::open_all("4g-lte", ms(0), ms(5), &[3, 4]).unwrap();
        assert_ne!(all[0].down, all[1].down, "each seed draws its own");
        let missing = TraceSource::open("/nonexistent/a.down", ms(0), ms(5), 3).unwrap_err().to_string();
        assert!(missing.contains("/nonexistent/a.down") && missing.contains("4g-lte-drive"), "{missing}");
    }
}
