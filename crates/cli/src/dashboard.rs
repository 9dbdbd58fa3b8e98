//! `cellerator dashboard`: a page in a browser.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use top::{Gate, Secrets};
use units::Duration;

use crate::served::{Served, reader, say_ready, serve_beside};

/// Time between two questions to accelerators, whoever looks and at how much: at most 200 in a second.
const PAUSE: Duration = Duration::from_millis(5);

/// Arguments of `cellerator dashboard`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    served: Served,
    /// Address and port to serve the page at: one of this machine alone, or with the three options below any
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9470")]
    listen: SocketAddr,
    /// Speak TLS, and show this certificate, PEM
    #[arg(long, value_name = "FILE", requires_all = ["key", "token_file"])]
    certificate: Option<PathBuf>,
    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// The token that a browser is asked for: the first line of a file
    #[arg(long, value_name = "FILE", requires = "certificate")]
    token_file: Option<PathBuf>,
}

/// Runs `cellerator dashboard`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let result = if args.served.serve { serve(args.listen) } else { start(args) };
    result.context("dashboard")
}

/// Starts the server without any rights, and answers it.
fn start(args: &Args) -> Result<ExitCode> {
    let served = &args.served;
    let secrets = match (&args.certificate, &args.key, &args.token_file) {
        (Some(certificate), Some(key), Some(token)) => Some(Secrets::read(certificate, key, token)),
        _ => None,
    };
    let secrets = secrets.transpose()?;
    // Before there is a process for it.
    dashboard::check_address(args.listen, secrets.is_some())?;
    let mut gate = Gate::new(&served.state_directory, served.names.clone()).with_pause(PAUSE);
    let arguments = ["dashboard", "--serve", "--listen", &args.listen.to_string()];
    serve_beside(&arguments, &served.user, &served.state_directory, |server| {
        gate.answer(server, secrets.as_ref())
    })
}

fn serve(listen: SocketAddr) -> Result<ExitCode> {
    let ready = |at: SocketAddr, has_tls: bool| {
        let scheme = if has_tls { "https" } else { "http" };
        say_ready(&format!("dashboard at {scheme}://{at}/"));
    };
    dashboard::serve(listen, reader()?, ready)?;
    Ok(ExitCode::SUCCESS)
}
