//! [`SweepSpec`]: what a sweep runs, as written in a file.

use std::path::{Path, PathBuf};

use link::LossModel;
use scenario::{Probability, Quantity};
use serde::Deserialize;
use units::{Bytes, Duration, Rate, WindowScale};

use crate::{Air, Buffer, ContestError, PathSettings, RadioSettings, Scheme, TraceSource};

/// The file, in TOML.
///
/// ```toml
/// traces = ["4g-lte-drive", "drive.down"]
/// schemes = ["accel:rate"]
/// seeds = [1, 2]
///
/// [parameters]
/// alpha = ["20 ms", "40 ms"]
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepSpec {
    /// As on the command line of a contest; paths count from the file's folder.
    pub traces: Vec<String>,
    /// Every combination of parameters is tried with each.
    pub schemes: Vec<String>,
    /// Sizes of the radio queue. `["4MB"]`.
    #[serde(default = "default_buffers")]
    pub buffers: Vec<String>,
    /// Seeds. `[1]`.
    #[serde(default = "default_seeds")]
    pub seeds: Vec<u64>,
    /// Length of each run. 60.
    #[serde(default = "default_seconds")]
    pub seconds: u64,
    /// Place in the traces at which the runs begin. `"0 s"`.
    #[serde(default)]
    pub from: Option<Quantity<Duration>>,
    /// Distance in the traces between the beginnings of runs of successive seeds: measured traces have no
    /// chance in them otherwise. `"0 s"`.
    #[serde(default)]
    pub stride: Option<Quantity<Duration>>,
    /// Round trip of the wired segment. `"20 ms"`.
    #[serde(default)]
    pub wan_rtt: Option<Quantity<Duration>>,
    /// Its rate. `"10 Gbit/s"`.
    #[serde(default)]
    pub wan_rate: Option<Quantity<Rate>>,
    /// Largest window that the accelerator offers to servers. The engine's.
    #[serde(default)]
    pub window_max: Option<Quantity<Bytes>>,
    /// Receive buffer of clients and send buffer of servers. `"128 MiB"`.
    #[serde(default)]
    pub host_buffer: Option<Quantity<Bytes>>,
    /// Window scale of clients, 0 to 14. 14.
    #[serde(default)]
    pub window_scale: Option<u8>,
    /// Packets that the radio loses at random. None.
    #[serde(default)]
    pub loss: Option<Quantity<Probability>>,
    /// Bursts of losses instead: `"0.1%,25%"`, the chance of a packet to begin one, and to end one. None.
    #[serde(default)]
    pub bursts: Option<String>,
    /// Fades: `"500ms,20ms"`, from begin to begin, and how long. None.
    #[serde(default)]
    pub fades: Option<String>,
    /// `"flat"`, or `"slots"` for what is inside the bins of a trace. `"flat"`.
    #[serde(default)]
    pub radio: Option<String>,
    /// Values to try for each parameter, by its name; numbers, true and false, or text with a unit.
    #[serde(default)]
    pub parameters: toml::Table,
    /// Folder from which paths count.
    #[serde(skip)]
    pub folder: PathBuf,
}

fn default_buffers() -> Vec<String> {
    vec!["4MB".to_owned()]
}

fn default_seeds() -> Vec<u64> {
    vec![1]
}

fn default_seconds() -> u64 {
    60
}

/// A scheme with the grid's parameters: its name without them, their values, and what they make of it.
type Variant = (String, Vec<String>, Scheme);

/// More cells than this are a mistake.
const CELLS_MAX: usize = 10_000_000;

/// One cell of the grid.
pub(super) struct Point {
    pub trace: usize,
    /// Its place in the list of seeds.
    pub seed_index: usize,
    pub scheme: Scheme,
    /// Scheme without the grid's parameters.
    pub base: String,
    /// Values in the order of [`Prepared::parameters`].
    pub values: Vec<String>,
    pub buffer: Buffer,
    pub seed: u64,
}

/// A specification that was checked, with its traces.
pub(super) struct Prepared {
    /// Each as every seed has it; one for all seeds where nothing is drawn.
    pub traces: Vec<Vec<TraceSource>>,
    pub length: Duration,
    pub path: PathSettings,
    /// Everything the cells depend on, as text.
    pub identity: String,
    variants: Vec<Variant>,
    names: Vec<String>,
    buffers: Vec<Buffer>,
    seeds: Vec<u64>,
}

impl SweepSpec {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or says something that is not known.
    pub fn read(file: &Path) -> Result<Self, ContestError> {
        let text = std::fs::read_to_string(file).map_err(|e| ContestError::file(file, &e))?;
        let mut spec: Self =
            toml::from_str(&text).map_err(|e| ContestError::file(file, &e.to_string().trim_end()))?;
        spec.folder = file.parent().unwrap_or(Path::new("")).to_owned();
        Ok(spec)
    }

    /// Checks everything and reads the traces, so that nothing can fail half-way.
    pub(super) fn prepare(&self) -> Result<Prepared, ContestError> {
        let length = Duration::from_secs(self.seconds);
        let lists = [
            ("traces", self.traces.len()),
            ("schemes", self.schemes.len()),
            ("buffers", self.buffers.len()),
            ("seeds", self.seeds.len()),
            ("seconds", usize::try_from(self.seconds.min(3_600)).unwrap_or(0)),
        ];
        if let Some((what, _)) = lists.into_iter().find(|(_, len)| *len == 0) {
            return Err(ContestError::setting(what, "must not be empty or zero"));
        }
        let from = self.from.map_or(Duration::ZERO, |q| q.0);
        let traces =
            self.traces.iter().map(|name| self.open(name, (from, length))).collect::<Result<Vec<_>, _>>()?;
        let (names, variants) = self.variants()?;
        let path = self.path_settings()?;
        let prepared = Prepared {
            identity: identity(self, &traces, &path),
            traces,
            length,
            path,
            variants,
            names,
            buffers: self.buffers.iter().map(|b| b.parse()).collect::<Result<_, _>>()?,
            seeds: self.seeds.clone(),
        };
        if prepared.len() > CELLS_MAX {
            let problem = format!("{} cells are too many; at most {CELLS_MAX}", prepared.len());
            return Err(ContestError::setting("parameters", problem));
        }
        Ok(prepared)
    }

    /// A trace as every seed has it.
    fn open(
        &self,
        name: &str,
        (from, length): (Duration, Duration),
    ) -> Result<Vec<TraceSource>, ContestError> {
        let file = self.file(name);
        let Some(stride) = self.stride else {
            return TraceSource::open_all(&file, from, length, &self.seeds);
        };
        let of_seed = |(nth, seed): (usize, &u64)| {
            TraceSource::open(&file, from + stride.0 * nth as u64, length, *seed)
        };
        self.seeds.iter().enumerate().map(of_seed).collect()
    }

    fn path_settings(&self) -> Result<PathSettings, ContestError> {
        let default = PathSettings::default();
        if self.window_scale.is_some_and(|scale| scale > 14) {
            return Err(ContestError::setting("window_scale", "must be at most 14"));
        }
        let path = PathSettings {
            wan_rtt: self.wan_rtt.map_or(default.wan_rtt, |q| q.0),
            wan_rate: self.wan_rate.map_or(default.wan_rate, |q| q.0),
            window_max: self.window_max.map(|q| q.0),
            host_buffer: self.host_buffer.map_or(default.host_buffer, |q| q.0),
            window_scale: self.window_scale.map_or(default.window_scale, WindowScale::new),
            radio: self.radio()?,
        };
        path.check().map(|()| path)
    }

    fn radio(&self) -> Result<RadioSettings, ContestError> {
        let loss = match (self.loss, &self.bursts) {
            (Some(_), Some(_)) => {
                return Err(ContestError::setting("loss", "excludes `bursts`: give one of them"));
            }
            (Some(loss), None) => RadioSettings::losing(loss.0),
            (None, Some(bursts)) => RadioSettings::bursts(bursts)?,
            (None, None) => LossModel::None,
        };
        let fades = self.fades.as_deref().map(RadioSettings::fades).transpose()?;
        let air = self.radio.as_deref().map_or(Ok(Air::Flat), str::parse)?;
        Ok(RadioSettings { loss, fades, air })
    }

    /// A trace's path from here; the name of a preset stays.
    fn file(&self, name: &str) -> String {
        let one = |name: &str| {
            let path = self.folder.join(name);
            if path.exists() { path.display().to_string() } else { name.to_owned() }
        };
        name.split('+').map(one).collect::<Vec<_>>().join("+")
    }

    fn variants(&self) -> Result<(Vec<String>, Vec<Variant>), ContestError> {
        let names: Vec<String> = self.parameters.keys().cloned().collect();
        let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
        for name in &names {
            let values = values(name, &self.parameters[name])?;
            combinations = combinations
                .into_iter()
                .flat_map(|before| {
                    values.iter().map(move |value| before.iter().cloned().chain([value.clone()]).collect())
                })
                .collect();
            if combinations.len() > CELLS_MAX {
                return Err(ContestError::setting(
                    "parameters",
                    format!("more than {CELLS_MAX} combinations"),
                ));
            }
        }
        let mut variants = Vec::new();
        for base in &self.schemes {
            for values in &combinations {
                let mut scheme: Scheme = base.parse()?;
                for (name, value) in names.iter().zip(values) {
                    scheme.set(name, value)?;
                    scheme.label += if scheme.label.contains('?') { "&" } else { "?" };
                    scheme.label += &format!("{name}={}", value.replace(' ', ""));
                }
                variants.push((base.clone(), values.clone(), scheme));
            }
        }
        Ok((names, variants))
    }
}

/// The values of one parameter as text.
fn values(name: &str, value: &toml::Value) -> Result<Vec<String>, ContestError> {
    let one = |value: &toml::Value| match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    };
    let list = match value {
        toml::Value::Array(list) if !list.is_empty() => list.iter().map(one).collect(),
        value => one(value).map(|value| vec![value]),
    };
    list.ok_or_else(|| {
        let problem = "must be a list of values, like [\"20 ms\", \"40 ms\"] or [100, 250]";
        ContestError::setting("parameters", format!("`{name}` {problem}"))
    })
}

/// Everything the cells depend on.
fn identity(spec: &SweepSpec, traces: &[Vec<TraceSource>], path: &PathSettings) -> String {
    let content = |trace: &TraceSource| {
        let up = trace.up.as_ref().map_or(0, |up| digest(up.busy_ms()));
        format!("{} {:016x} {up:016x}", trace.name, digest(trace.down.busy_ms()))
    };
    let traces: Vec<String> = traces.iter().flatten().map(content).collect();
    format!(
        "{} {:?} {:?} {:?} {:?} {} {:?} {:?} {} {path:?}",
        env!("CARGO_PKG_VERSION"),
        traces,
        spec.schemes,
        spec.buffers,
        spec.seeds,
        spec.seconds,
        spec.from.map(|q| q.0.as_nanos()),
        spec.stride.map(|q| q.0.as_nanos()),
        spec.parameters
    )
}

/// FNV-1a over the opportunities.
fn digest(slots: impl Iterator<Item = (u64, u64)>) -> u64 {
    let words = slots.flat_map(|(ms, count)| [ms, count]);
    words
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Prepared {
    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.variants.len() * self.buffers.len() * self.seeds.len() * self.traces.len()
    }

    /// A trace as a seed, by its place in the list, has it: its place among the trace's own, and itself.
    pub(super) fn source(&self, trace: usize, seed: usize) -> (usize, &TraceSource) {
        let all = &self.traces[trace];
        let own = seed.min(all.len() - 1);
        (own, &all[own])
    }

    /// Names of the grid's parameters.
    pub(super) fn parameters(&self) -> Vec<String> {
        self.names.clone()
    }

    /// The cell of a number: traces vary fastest, then seeds, buffers, schemes with their parameters.
    pub(super) fn point(&self, number: usize) -> Point {
        let (rest, trace) = (number / self.traces.len(), number % self.traces.len());
        let (rest, seed) = (rest / self.seeds.len(), rest % self.seeds.len());
        let (variant, buffer) = (rest / self.buffers.len(), rest % self.buffers.len());
        let (base, values, scheme) = &self.variants[variant];
        Point {
            trace,
            seed_index: seed,
            scheme: scheme.clone(),
            base: base.clone(),
            values: values.clone(),
            buffer: self.buffers[buffer],
            seed: self.seeds[seed],
        }
    }
}
