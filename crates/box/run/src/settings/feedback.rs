//! Flags of `cellerator run` about what base stations report and what is made of it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use control::{ControllerConfig, Law, WindowAdaptationParams};
use scenario::Quantity;
use serde::Deserialize;
use units::Duration;

use super::choice::Named;
use super::value::{Within, Written};
use crate::FeedbackConfig;

/// Source of the reports of base stations.
#[derive(clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[command(next_help_heading = "Feedback of base stations")]
pub(super) struct FeedbackArgs {
    /// Listen for base stations' reports at this address and port (docs/feedback.md)
    #[arg(long, value_name = "ADDR:PORT")]
    feedback: Option<SocketAddr>,
    /// Take only reports signed with the key in this file (its bytes without the line end)
    #[arg(long, value_name = "FILE", requires = "feedback")]
    feedback_key_file: Option<PathBuf>,
    /// Least age of a report whose sender's clock does not agree with this machine's clock
    #[arg(long, value_name = "TIME", default_value = "5 ms")]
    feedback_delay: Quantity<Duration>,
}

impl FeedbackArgs {
    /// Setting that the key needs beside it, if that lacks.
    pub(super) fn misfit(&self) -> Option<(&'static [&'static str], String)> {
        let lacks = self.feedback_key_file.is_some() && self.feedback.is_none();
        lacks.then(|| (&["feedback-key-file"][..], "'feedback-key-file' needs 'feedback'".to_owned()))
    }

    /// Settings for the reception of reports, if at all; an error is one line.
    pub(super) fn config(&self) -> Result<Option<FeedbackConfig>, String> {
        let Some(listen) = self.feedback else { return Ok(None) };
        let key = self.feedback_key_file.as_deref().map(read_key).transpose()?;
        Ok(Some(FeedbackConfig { listen, key, delay_us: self.feedback_delay.0.as_micros() }))
    }
}

/// The key in a file, without the line end that editors leave.
///
/// # Errors
/// One line: the file cannot be read, or holds no key.
pub fn read_key(path: &Path) -> Result<Vec<u8>, String> {
    let mut key = io::read_secret(path).map_err(|error| format!("the feedback key: {error}"))?;
    while key.last().is_some_and(|byte| [b'\n', b'\r'].contains(byte)) {
        key.pop();
    }
    if key.is_empty() {
        return Err(format!("the feedback key {} is empty: write at least 16 random bytes", path.display()));
    }
    Ok(key)
}

/// Settings of `window-adaptation`.
#[derive(clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct WindowAdaptationArgs {
    /// Meaning of the paper's w(n) in `window-adaptation`
    #[arg(long, default_value = "predictive", value_name = "LAW")]
    window_law: Named<Law>,
    /// The gain g of w = b·τ − g·(q − q0), in thousandths, for the first two laws
    #[arg(long, value_name = "N", default_value = "1000")]
    window_gain: Written<Within<1, 2_000>>,
    /// The step τ of the first two laws: the period of the reports
    #[arg(long, value_name = "TIME", default_value = "10 ms")]
    window_step: Quantity<Duration>,
}

impl WindowAdaptationArgs {
    /// The controller they mean.
    pub(super) fn config(&self) -> ControllerConfig {
        ControllerConfig::WindowAdaptation(WindowAdaptationParams {
            law: self.window_law.0,
            gain_permille: self.window_gain.0.0,
            tau: self.window_step.0,
            ..WindowAdaptationParams::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        feedback: FeedbackArgs,
        #[command(flatten)]
        window: WindowAdaptationArgs,
    }

    fn parse(words: &[&str]) -> Result<Line, String> {
        Line::try_parse_from(std::iter::once(&"run").chain(words)).map_err(|e| e.to_string())
    }

    #[test]
    fn without_flags_nobody_listens_and_the_defaults_hold() {
        let line = parse(&[]).unwrap();
        assert_eq!(line.feedback.config(), Ok(None));
        let default = ControllerConfig::named("window-adaptation").unwrap();
        assert_eq!(line.window.config(), default);
    }

    #[test]
    fn a_key_is_read_without_its_line_end_and_an_empty_one_refused() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&path, "secret\r\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let words = ["--feedback", "127.0.0.1:7310", "--feedback-key-file", path.to_str().unwrap()];
        let config = parse(&words).unwrap().feedback.config().unwrap().unwrap();
        assert_eq!((config.key.as_deref(), config.delay_us), (Some(&b"secret"[..]), 5_000));
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        let open = parse(&words).unwrap().feedback.config().unwrap_err();
        assert!(open.contains("its mode is 0640") && open.contains("chmod 600"), "{open}");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::write(&path, "\n").unwrap();
        assert!(parse(&words).unwrap().feedback.config().unwrap_err().contains("is empty"));
        std::fs::remove_file(&path).unwrap();
        assert!(parse(&words).unwrap().feedback.config().unwrap_err().contains("cannot read"));
        assert!(parse(&["--feedback-key-file", "k"]).is_err(), "a key for nothing");
    }

    #[test]
    fn laws_and_gain_reach_the_controller() {
        let line = parse(&["--window-law", "per-step", "--window-gain", "500", "--window-step", "20 ms"]);
        let ControllerConfig::WindowAdaptation(params) = line.unwrap().window.config() else { panic!() };
        assert_eq!((params.law, params.gain_permille), (Law::PerStep, 500));
        assert_eq!(params.tau, Duration::from_millis(20));
    }
}
