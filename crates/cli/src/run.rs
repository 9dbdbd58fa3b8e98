//! `cellerator run`.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use engine::WindowPolicy;
use run::{Accelerator, Event, Job, RunError, Settings, Severity, Task};

/// Runs `cellerator run`; an error is one clear line: what, where, what to do.
pub fn main(settings: Settings) -> Result<ExitCode, String> {
    let given: Vec<OsString> = std::env::args_os().skip_while(|word| word != "run").skip(1).collect();
    let result = match settings.task(given)? {
        Task::Watch(record, hang_after) => {
            run::watch(&record, hang_after).map_err(|error| error.to_string())?;
            Ok(())
        }
        Task::DryRun(config) => run::dry_run(&config, &mut show),
        Task::Run(job) => accelerate(*job),
    };
    result.map(|()| ExitCode::SUCCESS).map_err(|error| format!("run: {error}"))
}

/// What was set up goes to standard output, what needs attention to standard error. A reader who has
/// gone away is no reason to stop.
fn show(event: &Event) {
    if event.severity() == Severity::Info {
        drop(std::io::stdout().write_all(format!("{event}\n").as_bytes()));
    } else {
        io::say(format_args!("cellerator: {}", event.line()));
    }
}

fn accelerate(job: Job) -> Result<(), RunError> {
    let Job { config, engine, read } = job;
    if engine.window_policy == WindowPolicy::Opportunistic {
        show(&Event::PatentClaim);
    }
    let make = |shards| {
        Accelerator::for_shards(&engine, shards, read).map_err(|error| RunError::Settings(error.to_string()))
    };
    run::run(&config, make, &mut show)?.tell(&mut show);
    Ok(())
}
