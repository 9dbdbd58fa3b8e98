//! [`Flows`]: what the comparison needs of a dataset's flows.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use tables::{TableReader, Value};

use crate::error::DatasetsError;

/// A flow with the figures of the direction that carried more data.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Place in [`Flows::subscribers`].
    pub subscriber: usize,
    /// Bytes of the stream, each once.
    pub bytes: u64,
    /// First packet to last, seconds.
    pub duration_s: f64,
    /// Both ends closed it.
    pub is_complete: bool,
    /// Packets with data.
    pub data_packets: u64,
    /// Of these, packets with data seen before.
    pub again: u64,
    /// Median of the round-trip times by Karn's rule, ms.
    pub rtt_p50_ms: Option<f64>,
    /// Their 95th percentile.
    pub rtt_p95_ms: Option<f64>,
}

/// All flows of a dataset that carried data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flows {
    /// Addresses of clients: of IPv4 the address, of IPv6 its first 64 bits. Of a flow without a SYN it is
    /// the end with the higher port.
    pub subscribers: Vec<String>,
    /// The flows, in the order of files and rows.
    pub flows: Vec<Flow>,
}

impl Flows {
    /// Reads the dataset in the folder `root`.
    ///
    /// # Errors
    /// There is no dataset, or it cannot be read.
    pub fn read(root: &Path) -> Result<Self, DatasetsError> {
        let mut files = Vec::new();
        let folder = root.join("v1").join("table=flows");
        if !folder.is_dir() {
            return Err(DatasetsError::NoDataset(root.to_owned()));
        }
        parts(&folder, &mut files)?;
        if files.is_empty() {
            return Err(DatasetsError::NoDataset(root.to_owned()));
        }
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut flows = Vec::new();
        for file in &files {
            let reader = TableReader::open(file)?;
            let columns = Columns::of(&reader, file)?;
            for row in reader.rows()? {
                if let Some((subscriber, mut flow)) = columns.flow(&row?) {
                    let next = numbers.len();
                    flow.subscriber = *numbers.entry(subscriber).or_insert(next);
                    flows.push(flow);
                }
            }
        }
        let mut subscribers = vec![String::new(); numbers.len()];
        for (name, number) in numbers {
            subscribers[number] = name;
        }
        Ok(Self { subscribers, flows })
    }
}

/// Parquet files below `folder`, in the order of their paths; unfinished ones are hidden.
fn parts(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), DatasetsError> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(DatasetsError::io(folder))? {
        paths.push(entry.map_err(DatasetsError::io(folder))?.path());
    }
    paths.sort();
    for path in paths {
        let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() {
            parts(&path, files)?;
        } else if !is_hidden && path.extension().is_some_and(|ending| ending == "parquet") {
            files.push(path);
        }
    }
    Ok(())
}

/// Places of columns.
struct Columns {
    first: usize,
    second: usize,
    client: usize,
    duration: usize,
    end: usize,
    /// Of each direction: unique bytes, data packets, retransmitted ones, RTT p50 and p95.
    directions: [[usize; 5]; 2],
}

impl Columns {
    fn of(reader: &TableReader, file: &Path) -> Result<Self, DatasetsError> {
        let place = |name: &str| {
            reader
                .schema()
                .position(name)
                .ok_or_else(|| DatasetsError::NoColumn { path: file.to_owned(), column: name.to_owned() })
        };
        let direction = |way: &str| -> Result<[usize; 5], DatasetsError> {
            let of = |name: &str| place(&format!("{way}_{name}"));
            Ok([
                of("unique_bytes")?,
                of("data_packets")?,
                of("retransmissions_data_packets")?,
                of("rtt_karn_p50_ms")?,
                of("rtt_karn_p95_ms")?,
            ])
        };
        Ok(Self {
            first: place("first")?,
            second: place("second")?,
            client: place("client")?,
            duration: place("duration_s")?,
            end: place("end")?,
            directions: [direction("a2b")?, direction("b2a")?],
        })
    }

    /// The subscriber and the flow; none of a flow without data.
    fn flow(&self, row: &[Value]) -> Option<(String, Flow)> {
        let count = |place: usize| row.get(place).and_then(Value::as_int).map_or(0, i64::cast_unsigned);
        let [forth, back] = self.directions;
        let way = if count(back[0]) > count(forth[0]) { back } else { forth };
        let bytes = count(way[0]);
        if bytes == 0 {
            return None;
        }
        let end = |place: usize| row.get(place).and_then(Value::as_text)?.parse::<SocketAddr>().ok();
        let (first, second) = (end(self.first)?, end(self.second)?);
        let client = match row.get(self.client).and_then(Value::as_int) {
            Some(0) => first,
            Some(_) => second,
            None => {
                if first.port() >= second.port() {
                    first
                } else {
                    second
                }
            }
        };
        let number = |place: usize| row.get(place).and_then(Value::as_float);
        let flow = Flow {
            subscriber: 0,
            bytes,
            duration_s: number(self.duration)?,
            is_complete: row.get(self.end).and_then(Value::as_text) == Some("closed"),
            data_packets: count(way[1]),
            again: count(way[2]),
            rtt_p50_ms: number(way[3]),
            rtt_p95_ms: number(way[4]),
        };
        Some((subscriber(client.ip()), flow))
    }
}

fn subscriber(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_devices() {
        assert_eq!(subscriber("10.0.0.7".parse().unwrap()), "10.0.0.7");
        assert_eq!(subscriber("2001:db8:1:2:3:4:5:6".parse().unwrap()), "2001:db8:1:2::");
    }
}
