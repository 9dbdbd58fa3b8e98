//! `cellerator feedback-adapter`: what radio networks publish, as feedback datagrams.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{BufReader, Read};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Error, Result, anyhow, bail};
use clap::ValueEnum;
use io::Clock;
use run::adapter::{Adapted, Mapping, mec_rnis, srsran};
use run::read_key;
use scenario::Quantity;
use serde_json::Value;
use units::Duration;
use wire::FeedbackKey;

/// Arguments of `cellerator feedback-adapter`.
#[derive(clap::Args)]
pub struct Args {
    /// Format of the input
    #[arg(value_enum)]
    kind: Kind,
    /// Address and port at which `cellerator run --feedback` listens
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// Source of the documents: `-` (standard input), a file, `udp:ADDR:PORT` to listen on, or `tcp:ADDR:PORT` to
    /// connect to
    #[arg(long, default_value = "-", value_name = "INPUT")]
    input: String,
    /// IP address of a device by its name in the input: `RNTI=ADDR` or `PCI/RNTI=ADDR` for srsran,
    /// `TEID=ADDR` or `NATED=ADDR` for mec-rnis. May be given several times
    #[arg(long, value_name = "NAME=ADDR", value_parser = map)]
    map: Vec<(String, IpAddr)>,
    /// Sign with the key in this file
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Time for which each report may be used: a little more than the time between two reports
    #[arg(long, value_name = "TIME", default_value = "3 s")]
    validity: Quantity<Duration>,
    /// mec-rnis: compute the queue from throughput and packet delay
    #[arg(long)]
    queue_from_delay: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// JSON metrics of an srsRAN gNB, one object after the other
    Srsran,
    /// L2Meas documents of the ETSI MEC 012 Radio Network Information Service
    MecRnis,
}

/// `NAME=ADDR`.
fn map(text: &str) -> Result<(String, IpAddr)> {
    let (name, address) = text.split_once('=').context("expected NAME=ADDR, as 0x4601=10.45.0.2")?;
    let address = address.parse().map_err(|_| anyhow!("`{address}` is no IP address"))?;
    Ok((name.to_owned(), address))
}

/// An RNTI, or PCI/RNTI, with the RNTI in decimal: logs write it in hexadecimal, the metrics do not.
fn decimal(name: &str) -> String {
    let (cell, number) = name.rsplit_once('/').map_or(("", name), |(cell, number)| (cell, number));
    let hexadecimal = number.strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let number = hexadecimal.map_or_else(|| number.to_owned(), |number| number.to_string());
    if cell.is_empty() { number } else { format!("{cell}/{number}") }
}

/// Runs `cellerator feedback-adapter`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let key = args.key_file.as_deref().map(read_key).transpose().map_err(Error::msg)?;
    let any = if args.to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).and_then(|socket| socket.connect(args.to).map(|()| socket));
    let socket = socket.with_context(|| format!("feedback-adapter: no way to {}", args.to))?;
    // Tunnels are named as the documents write them, radio identities as numbers.
    let named = |(name, address): &(String, IpAddr)| match args.kind {
        Kind::Srsran => (decimal(name), *address),
        Kind::MecRnis => (name.clone(), *address),
    };
    let mapping: Mapping = args.map.iter().map(named).collect();
    let mut sender = Sender {
        args,
        mapping,
        socket,
        key: key.and_then(|bytes| FeedbackKey::new(&bytes)),
        number: RandomState::new().build_hasher().finish() as u32,
        sequence: 0,
        documents: 0,
        known: 0,
        unmapped: Vec::new(),
    };
    let result = sender.read_all();
    if result.is_ok() || sender.documents > 0 {
        sender.summarise();
    }
    let result = result.and_then(|()| sender.refuse_nothing());
    result.map(|()| ExitCode::SUCCESS).context("feedback-adapter")
}

struct Sender<'a> {
    args: &'a Args,
    mapping: Mapping,
    socket: UdpSocket,
    key: Option<FeedbackKey>,
    number: u32,
    sequence: u64,
    documents: u64,
    /// Those of the kind that was said.
    known: u64,
    unmapped: Vec<String>,
}

/// Longest UDP datagram.
const DATAGRAM_MAX: usize = 65_535;

/// Names of devices without an address that are said.
const UNMAPPED_MAX: usize = 32;

impl Sender<'_> {
    fn read_all(&mut self) -> Result<()> {
        let input = self.args.input.as_str();
        let failed = || format!("cannot read {input}");
        if let Some(address) = input.strip_prefix("udp:") {
            let socket = UdpSocket::bind(address).with_context(failed)?;
            let mut buffer = vec![0; DATAGRAM_MAX];
            loop {
                let (len, _) = socket.recv_from(&mut buffer).with_context(failed)?;
                // What else arrives at an open port is no reason to end.
                let _ = self.read(buffer.get(..len).unwrap_or_default());
            }
        }
        if let Some(address) = input.strip_prefix("tcp:") {
            return self.read(TcpStream::connect(address).with_context(failed)?);
        }
        if input == "-" {
            self.read(std::io::stdin().lock())
        } else {
            self.read(File::open(input).with_context(failed)?)
        }
    }

    /// JSON values one after the other, with anything JSON calls space between them.
    fn read(&mut self, from: impl Read) -> Result<()> {
        let documents = serde_json::Deserializer::from_reader(BufReader::new(from)).into_iter::<Value>();
        for document in documents {
            let number = self.documents + 1;
            let document = document.with_context(|| format!("{}: document {number}", self.args.input))?;
            self.documents = number;
            self.send(&document);
        }
        Ok(())
    }

    fn send(&mut self, document: &Value) {
        let now_us = Clock::wall_nanos() / 1_000;
        let Adapted { reports, unmapped, is_known } = match self.args.kind {
            Kind::Srsran => srsran(document, &self.mapping, now_us),
            Kind::MecRnis => mec_rnis(document, &self.mapping, self.args.queue_from_delay, now_us),
        };
        if is_known {
            self.known += 1;
        } else if self.known == 0 && self.documents - self.known == 1 {
            eprintln!("feedback-adapter: {}", self.foreign(document));
        }
        for mut report in reports {
            self.sequence += 1;
            (report.sender, report.sequence) = (self.number, self.sequence);
            report.validity = self.args.validity.0;
            // Nobody listens yet: lost, as any datagram may be.
            let _ = self.socket.send(report.encode(self.key.as_ref()).as_ref());
        }
        for name in unmapped {
            if self.unmapped.len() < UNMAPPED_MAX && !self.unmapped.contains(&name) {
                eprintln!("feedback-adapter: no address for `{name}`: give one with --map {name}=ADDR");
                self.unmapped.push(name);
            }
        }
    }

    /// Problem with a document in which nothing was found.
    fn foreign(&self, document: &Value) -> String {
        let (input, number) = (&self.args.input, self.documents);
        let keys = match document.as_object() {
            Some(object) => {
                let keys: Vec<&str> = object.keys().take(8).map(String::as_str).collect();
                format!("it has {}", if keys.is_empty() { "no keys".to_owned() } else { keys.join(", ") })
            }
            None => "it is no object".to_owned(),
        };
        format!("{input}: document {number} says nothing of any device: {} is needed, {keys}", self.needed())
    }

    fn needed(&self) -> &'static str {
        match self.args.kind {
            Kind::Srsran => "`ue_list` (in `cells` or by itself) with `rnti` and `dl_brate`",
            Kind::MecRnis => "`cellUEInfo` with `dl_nongbr_throughput_ue` or `dl_gbr_throughput_ue`",
        }
    }

    /// An input in which nothing was found is none of its kind.
    fn refuse_nothing(&self) -> Result<()> {
        if self.known > 0 {
            return Ok(());
        }
        let (input, documents) = (&self.args.input, self.documents);
        bail!("{input}: nothing found in {documents} documents: {} is needed; is KIND right?", self.needed())
    }

    fn summarise(&self) {
        let (documents, sent, unmapped) = (self.documents, self.sequence, self.unmapped.len());
        eprintln!(
            "feedback-adapter: {documents} documents, {sent} reports, {unmapped} devices without address"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decimal_or_hexadecimal() {
        let address: IpAddr = "10.45.0.2".parse().unwrap();
        assert_eq!(map("0x4601=10.45.0.2").unwrap(), ("0x4601".to_owned(), address));
        assert_eq!(["0x4601", "17921", "1/0x4601", "1/7"].map(decimal), ["17921", "17921", "1/17921", "1/7"]);
        assert!(map("4601").unwrap_err().to_string().contains("NAME=ADDR"));
        assert!(map("1=x").unwrap_err().to_string().contains("no IP address"));
    }
}
