//! A unit of systemd that loads `adaptive` at every boot: the packages' one, with the program and arguments at hand.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The unit.
pub const NAME: &str = "cellerator-congestion.service";
const PACKAGED: &str = include_str!("../../../packaging/cellerator-congestion.service");
const COMMAND: &str = "ExecStart=/usr/bin/cellerator congestion load";
const UNITS: &str = "etc/systemd/system";
/// There while systemd is the machine's service manager (`sd_booted(3)`).
const BOOTED: &str = "/run/systemd/system";

/// Where the unit goes: this machine, or the tree of another one.
#[derive(Clone, Debug)]
pub struct Place {
    root: PathBuf,
}

impl Place {
    /// Below `root`.
    ///
    /// # Errors
    /// Where it is this machine's root and systemd is not its service manager.
    pub fn of(root: &Path) -> Result<Self, String> {
        let place = Self { root: root.to_owned() };
        if place.is_this_machine() && !Path::new(BOOTED).exists() {
            return Err(format!(
                "systemd does not run here ({BOOTED} is missing): have what starts services here run `cellerator \
                 congestion load`, or write the unit into another machine's tree with --root"
            ));
        }
        Ok(place)
    }

    /// It is this machine, where units are started.
    pub fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    fn unit(&self) -> PathBuf {
        self.root.join(UNITS).join(NAME)
    }

    fn wanted(&self) -> PathBuf {
        self.root.join(UNITS).join("multi-user.target.wants").join(NAME)
    }

    /// Writes the unit for `program` with `arguments` behind `congestion load`, and starts it where it is this
    /// machine's; the lines say what was done.
    ///
    /// # Errors
    /// When a file cannot be written, or systemd does not start it: one line.
    pub fn install(&self, program: &Path, arguments: &[String]) -> Result<Vec<String>, String> {
        let command =
            [&[program.display().to_string(), "congestion".to_owned(), "load".to_owned()], arguments]
                .concat();
        let command: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        let text = PACKAGED.replace(COMMAND, &format!("ExecStart={}", command.join(" ")));
        let (unit, wanted) = (self.unit(), self.wanted());
        let folder = wanted.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(|error| format!("create {}: {error}", folder.display()))?;
        fs::write(&unit, text).map_err(|error| format!("write {}: {error}", unit.display()))?;
        match symlink(Path::new("/").join(UNITS).join(NAME), &wanted) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(format!("link {}: {error}", wanted.display()));
            }
            _ => {}
        }
        let mut lines = vec![format!("wrote {}: loaded at every boot", unit.display())];
        if self.is_this_machine() {
            systemctl(&["daemon-reload"])?;
            systemctl(&["restart", NAME])?;
            lines.push(format!("started {NAME}"));
        }
        Ok(lines)
    }

    /// The unit's process on this machine; none where it does not run, or the unit is another machine's.
    pub fn process(&self) -> Option<u32> {
        let said =
            self.is_this_machine().then(|| systemctl(&["show", "--property=MainPID", "--value", NAME]));
        said?.ok()?.trim().parse().ok().filter(|process| *process > 0)
    }

    /// Ends what runs, and takes the unit away.
    ///
    /// # Errors
    /// When there is none, or it cannot be taken away: one line.
    pub fn remove(&self) -> Result<Vec<String>, String> {
        let (unit, wanted) = (self.unit(), self.wanted());
        if !unit.exists() {
            return Err(format!("there is no {}: nothing was installed", unit.display()));
        }
        if self.is_this_machine() {
            systemctl(&["stop", NAME])?;
        }
        for file in [&wanted, &unit] {
            match fs::remove_file(file) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(format!("remove {}: {error}", file.display()));
                }
                _ => {}
            }
        }
        if self.is_this_machine() {
            systemctl(&["daemon-reload"])?;
        }
        Ok(vec![format!("removed {}", unit.display())])
    }
}

/// A word of a command line of systemd (`systemd.service(5)`, COMMAND LINES).
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.:=,+@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => drop(write!(text, "\\{c}")),
            '%' | '$' => drop(write!(text, "{c}{c}")),
            c if c.is_control() => drop(write!(text, "\\x{:02x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text + "\""
}

/// What it says.
fn systemctl(arguments: &[&str]) -> Result<String, String> {
    let done = Command::new("systemctl").args(arguments).output();
    let done = done.map_err(|error| format!("systemctl: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said.lines().next().unwrap_or("it says nothing");
    Err(format!("systemctl {}: {said} (see journalctl -u {NAME})", arguments.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_systemd_reads_them() {
        for (word, text) in [
            ("/usr/bin/cellerator", "/usr/bin/cellerator"),
            ("443", "443"),
            ("", "\"\""),
            ("/a b/%i", "\"/a b/%%i\""),
            ("a\"b\\c$d", "\"a\\\"b\\\\c$$d\""),
            ("a\nb", "\"a\\x0ab\""),
        ] {
            assert_eq!(quoted(word), text);
        }
        assert!(PACKAGED.contains(COMMAND));
    }
}
