//! A unit of systemd that loads `adaptive` at every boot: the packages' one, with the program and arguments at hand.
//!
//! A package's unit of the same name lies elsewhere; the one written here overrides it until it is taken away.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Error, Result, anyhow, bail};

use crate::error_line;

/// The unit.
pub const NAME: &str = "cellerator-congestion.service";
const PACKAGED: &str = include_str!("../../../../packaging/cellerator-congestion.service");
const COMMAND: &str = "ExecStart=/usr/bin/cellerator congestion load";
const CONDITION: &str = "ConditionFileIsExecutable=/usr/bin/cellerator";
const UNITS: &str = "etc/systemd/system";
/// There while systemd is the machine's service manager (`sd_booted(3)`).
const BOOTED: &str = "/run/systemd/system";
/// Directories that a boot empties; the unit has others of its own (`PrivateTmp`).
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// Place of the unit: this machine, or the tree of another one.
#[derive(Clone, Debug)]
pub struct Place {
    root: PathBuf,
}

impl Place {
    /// Below `root`.
    ///
    /// # Errors
    /// Where it is this machine's root, and systemd is not its service manager or this process is not root's.
    pub fn of(root: &Path) -> Result<Self> {
        let place = Self { root: root.to_owned() };
        if place.is_this_machine() && !Path::new(BOOTED).exists() {
            bail!(
                "systemd does not run here ({BOOTED} is missing): have what starts services here run `cellerator \
                 congestion load`, or write the unit into another machine's tree with --root"
            );
        }
        if place.is_this_machine() && !telemetry::is_root() {
            bail!("{} is written, started and taken away by root: run as root", place.unit().display());
        }
        Ok(place)
    }

    /// It is this machine, where units are started.
    fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    fn unit(&self) -> PathBuf {
        self.root.join(UNITS).join(NAME)
    }

    fn wanted(&self) -> PathBuf {
        self.root.join(UNITS).join("multi-user.target.wants").join(NAME)
    }

    /// The text of the unit that was written before; none where there is none.
    fn written(&self) -> Result<Option<String>> {
        let unit = self.unit();
        if let Ok(to) = fs::read_link(&unit) {
            bail!(
                "{} is a link to {}, and not of `install`: see `systemctl unmask` and `systemctl disable`",
                unit.display(),
                to.display()
            );
        }
        match fs::read_to_string(&unit) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            text => text.map(Some).with_context(|| format!("read {}", unit.display())),
        }
    }

    /// Writes the unit for `program` with `arguments` behind `congestion load`, and starts it where it is this
    /// machine's; the lines say what was done.
    ///
    /// # Errors
    /// When a file cannot be written; or when it loads nothing, and what was there before is there again. One line.
    pub fn install(&self, program: &Path, arguments: &[String]) -> Result<Vec<String>> {
        if self.is_this_machine() && TEMPORARY.iter().any(|folder| program.starts_with(folder)) {
            bail!(
                "{} will not be there at the next boot: put it into /usr/local/bin, and install from there",
                program.display()
            );
        }
        let (before, ran) = (self.written()?, self.process().is_some());
        self.write(&text_for(program, arguments))?;
        let mut lines = vec![format!("wrote {}: loaded at every boot", self.unit().display())];
        if self.is_this_machine() {
            lines.push(
                self.start().map_err(|why| anyhow!("{}: {}", error_line(&why), self.undo(before, ran)))?,
            );
        }
        Ok(lines)
    }

    fn write(&self, text: &str) -> Result<()> {
        let (unit, wanted) = (self.unit(), self.wanted());
        let folder = wanted.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        fs::write(&unit, text).with_context(|| format!("write {}", unit.display()))?;
        match symlink(self.own_link(), &wanted) {
            // A package's unit of this name is enabled, and stays so. systemd goes by the name.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            linked => linked.with_context(|| format!("link {}", wanted.display())),
        }
    }

    /// Target of the link that enables it, as the machine sees it.
    fn own_link(&self) -> PathBuf {
        Path::new("/").join(UNITS).join(NAME)
    }

    /// Starts it anew with what is written; it has loaded the program then.
    fn start(&self) -> Result<String> {
        systemctl(&["daemon-reload"])?;
        systemctl(&["restart", NAME]).map_err(|error| property("StatusText").map_or(error, Error::msg))?;
        let users = property("StatusText")
            .with_context(|| format!("{NAME} was not started: see journalctl -u {NAME}"))?;
        Ok(format!("started {NAME}: {users}"))
    }

    /// The unit of `before` is there again, or that of a package, and at work if it `ran`; in words.
    fn undo(&self, before: Option<String>, ran: bool) -> String {
        let undone = match before {
            None => self.remove().map(|_| "nothing was installed"),
            Some(text) => systemctl(&["stop", NAME])
                .and_then(|_| self.write(&text))
                .and_then(|()| systemctl(&["daemon-reload"]))
                .map(|_| "what was installed before is there again"),
        };
        let undone = undone.and_then(|words| match ran {
            true => self.start().map(|_| "what ran before is at work again"),
            false => Ok(words),
        });
        undone.map_or_else(|error| error_line(&error), str::to_owned)
    }

    /// The unit's process on this machine; none where it does not run, or the unit is another machine's.
    pub fn process(&self) -> Option<u32> {
        property("MainPID").filter(|_| self.is_this_machine())?.parse().ok().filter(|process| *process > 0)
    }

    /// Command that ends it for good; none where a boot does not start it.
    pub fn for_good(&self) -> Option<&'static str> {
        systemctl(&["is-enabled", NAME]).ok()?;
        Some(match self.unit().exists() {
            true => "cellerator congestion install --remove",
            false => "systemctl disable cellerator-congestion",
        })
    }

    /// Ends what runs, and takes the unit away.
    ///
    /// # Errors
    /// When there is none, or it cannot be taken away: one line.
    pub fn remove(&self) -> Result<Vec<String>> {
        let (unit, wanted) = (self.unit(), self.wanted());
        if self.written()?.is_none() {
            let packaged = match self.process() {
                Some(_) => ", and `systemctl disable --now cellerator-congestion` ends the package's",
                None => "",
            };
            bail!("there is no {}: nothing was installed{packaged}", unit.display());
        }
        if self.is_this_machine() {
            systemctl(&["stop", NAME])?;
        }
        let is_own = fs::read_link(&wanted).is_ok_and(|to| to == self.own_link());
        for file in is_own.then_some(&wanted).into_iter().chain([&unit]) {
            match fs::remove_file(file) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.with_context(|| format!("remove {}", file.display()))?,
            }
        }
        let mut lines = vec![format!("removed {}", unit.display())];
        if self.is_this_machine() {
            systemctl(&["daemon-reload"])?;
            // Where it has failed systemd remembers it. That there is nothing to forget is no error.
            drop(systemctl(&["reset-failed", NAME]));
            if let Some(command) = self.for_good() {
                lines.push(format!(
                    "the package's unit is enabled and starts at the next boot: `{command}` ends that"
                ));
            }
        }
        Ok(lines)
    }
}

/// The unit for `program` with `arguments` behind `congestion load`.
fn text_for(program: &Path, arguments: &[String]) -> String {
    let program = program.display().to_string();
    let command = [&[program.clone(), "congestion".to_owned(), "load".to_owned()], arguments].concat();
    let command: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let condition = CONDITION.replace("/usr/bin/cellerator", &program.replace('%', "%%"));
    PACKAGED.replace(COMMAND, &format!("ExecStart={}", command.join(" "))).replace(CONDITION, &condition)
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

/// A property of the unit; none where it is empty.
fn property(name: &str) -> Option<String> {
    let said = systemctl(&["show", "--value", "--property", name, NAME]).ok()?;
    Some(said.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Output of the command.
fn systemctl(arguments: &[&str]) -> Result<String> {
    let done = Command::new("systemctl").args(arguments).output();
    let done = done.context("systemctl")?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said.lines().next().unwrap_or("it says nothing");
    bail!("systemctl {}: {said} (see journalctl -u {NAME})", arguments.join(" "))
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
        assert!(PACKAGED.contains(COMMAND) && PACKAGED.contains(CONDITION));
        let text = text_for(Path::new("/a b/%c"), &["--port".to_owned(), "443".to_owned()]);
        assert!(text.contains("\nExecStart=\"/a b/%%c\" congestion load --port 443\n"), "{text}");
        assert!(text.contains("\nConditionFileIsExecutable=/a b/%%c\n"), "{text}");
    }
}
