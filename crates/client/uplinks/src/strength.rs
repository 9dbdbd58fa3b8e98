//! [`Strength`]: how strong a radio is; three sources.

use std::fmt::Debug;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Tells the strength of radios.
pub trait Strength: Debug + Send {
    /// Interfaces and their strength (RSRP or RSSI, dBm), as far as it is known; cheap enough for five times a
    /// second.
    fn read(&mut self) -> Vec<(String, i32)>;
}

/// A file with lines `INTERFACE DBM`: from a script that knows the modem, or a test.
#[derive(Debug)]
pub struct StrengthFile(pub PathBuf);

impl Strength for StrengthFile {
    fn read(&mut self) -> Vec<(String, i32)> {
        parse_lines(&std::fs::read_to_string(&self.0).unwrap_or_default())
    }
}

fn parse_lines(text: &str) -> Vec<(String, i32)> {
    let line = |line: &str| {
        let (name, dbm) = line.trim().split_once(char::is_whitespace)?;
        Some((name.to_owned(), dbm.trim().trim_end_matches("dBm").trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Wi-Fi stations (nl80211).
#[derive(Debug)]
pub struct Wireless {
    family: io::netlink::Wireless,
}

impl Wireless {
    /// None where there is no wireless interface or driver.
    #[must_use]
    pub fn open() -> Option<Self> {
        let family = io::netlink::Wireless::open().ok().flatten()?;
        Some(Self { family })
    }
}

impl Strength for Wireless {
    fn read(&mut self) -> Vec<(String, i32)> {
        let Ok(netlink) = io::netlink::Netlink::open() else { return Vec::new() };
        let links = netlink.links().unwrap_or_default();
        let wireless = links
            .into_iter()
            .filter(|link| std::path::Path::new(&format!("/sys/class/net/{}/phy80211", link.name)).exists());
        wireless.filter_map(|link| Some((link.name, self.family.signal_dbm(link.index)?))).collect()
    }
}

/// Modems (ModemManager, asked through its program `mmcli`), in a process of its own every few seconds.
#[derive(Debug, Default)]
pub struct ModemManager {
    turn: u32,
    last: Vec<(String, i32)>,
    running: Option<std::process::Child>,
}

/// Number of reads from one question to the next.
const TURNS: u32 = 10;

impl ModemManager {
    /// None where `mmcli` is missing.
    #[must_use]
    pub fn open() -> Option<Self> {
        io::features::find_program("mmcli").map(|_| Self::default())
    }
}

impl Strength for ModemManager {
    fn read(&mut self) -> Vec<(String, i32)> {
        self.turn = self.turn.wrapping_add(1);
        if let Some(child) = &mut self.running {
            if matches!(child.try_wait(), Ok(None)) {
                return self.last.clone();
            }
            let said = self.running.take().and_then(|child| child.wait_with_output().ok());
            let text = said.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
            self.last = parse_modem(&text).into_iter().collect();
        }
        if self.turn % TURNS == 1 {
            let script = "mmcli -m any -J; mmcli -m any --signal-get -J";
            let command =
                Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
            self.running = command.ok();
        }
        self.last.clone()
    }
}

/// The network port and the strength in what `mmcli` prints: LTE's RSRP, else 5G's, else an RSSI.
fn parse_modem(text: &str) -> Option<(String, i32)> {
    let after = |key: &str| {
        let rest = text.split_once(&format!("\"{key}\""))?.1;
        Some(rest.trim_start().trim_start_matches(':').trim_start())
    };
    let ports = after("ports")?;
    let port = ports.split('"').find(|word| word.ends_with(" (net)"))?.trim_end_matches(" (net)").to_owned();
    let number = |of: &str, key: &str| {
        let section = after(of)?.split_once('}')?.0.to_owned();
        let value = section.split_once(&format!("\"{key}\""))?.1.split('"').nth(1)?.to_owned();
        value.parse::<f64>().ok().map(|dbm| dbm.round() as i32)
    };
    let found = [("lte", "rsrp"), ("5g", "rsrp"), ("umts", "rscp"), ("umts", "rssi"), ("gsm", "rssi")];
    found.into_iter().find_map(|(of, key)| number(of, key)).map(|dbm| (port, dbm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_interfaces_and_strengths() {
        let text = "wwan0 -101\nwlan0  -70 dBm\nodd\nwwan1 x\n";
        assert_eq!(parse_lines(text), [("wwan0".to_owned(), -101), ("wlan0".to_owned(), -70)]);
        let mut missing = StrengthFile("/no/such/file".into());
        assert!(missing.read().is_empty());
    }

    #[test]
    fn a_modems_strength_is_lte_rsrp_where_there_is_one() {
        let text = r#"{"modem":{"generic":{"ports":["cdc-wdm0 (qmi)","wwan0 (net)"]}}}
            {"modem":{"signal":{"5g":{"rsrp":"--"},"lte":{"rsrp":"-104.00","rssi":"-70.00"},"umts":{"rssi":"--"}}}}"#;
        assert_eq!(parse_modem(text), Some(("wwan0".to_owned(), -104)));
        assert_eq!(parse_modem("{}"), None);
    }
}
