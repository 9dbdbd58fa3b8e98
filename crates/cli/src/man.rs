//! `cellerator man`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::output::{self, Words};
use crate::{Cli, examples};

/// Arguments of `cellerator man`.
#[derive(clap::Args)]
pub struct Args {
    /// The command, such as `multipath run`; without one the page of `cellerator` itself
    command: Vec<String>,
    /// Write the pages of all commands to this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    all: Option<PathBuf>,
}

/// Runs `cellerator man`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let program = whole();
    let Some(folder) = &args.all else {
        let mut command = &program;
        for name in &args.command {
            let sub = command.get_subcommands().find(|sub| sub.get_name() == name && !sub.is_hide_set());
            command = sub.with_context(|| {
                let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
                let names: Vec<&str> = shown.map(Command::get_name).collect();
                format!("`{}` has no command `{name}`; there are {}", command.get_name(), names.join(", "))
            })?;
        }
        Words::default().say(&page(command)?);
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let count = write(&program, folder)?;
    Words::default().say(&format!("{count} pages in {}", folder.display()));
    Ok(ExitCode::SUCCESS)
}

/// The program's commands, each with its whole name: `cellerator-multipath-run`.
fn whole() -> Command {
    let mut program = examples::with_examples(Cli::command()).disable_help_subcommand(true);
    program.build();
    named(program, "")
}

fn named(command: Command, above: &str) -> Command {
    let own = command.get_name().to_owned();
    let whole = if above.is_empty() { own } else { format!("{above}-{own}") };
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = names
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, |sub| named(sub, &whole)));
    command.display_name(whole)
}

fn page(command: &Command) -> Result<String> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    let man = Man::new(command.clone()).title(name).manual("Cellerator");
    man.render(&mut text).context("the manual page")?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Writes a command's page and those of its subcommands; how many.
fn write(command: &Command, folder: &Path) -> Result<usize> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    output::save(&folder.join(format!("{name}.1")), &page(command)?)?;
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    shown.map(|sub| write(sub, folder)).try_fold(1, |sum, count| Ok(sum + count?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &Command) -> usize {
        let text = page(command).unwrap();
        let name = command.get_display_name().unwrap();
        assert!(text.contains(&format!(".TH {name} 1")), "{name}: {text}");
        for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
            let long = option.get_long().unwrap_or_default().replace('-', "\\-");
            assert!(text.contains(&long), "{name}: {long} is missing");
        }
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        1 + shown.map(check).sum::<usize>()
    }

    #[test]
    fn every_command_has_a_page_with_its_options_and_examples() {
        let program = whole();
        assert!(check(&program) > 40);
        let multipath = program.find_subcommand("multipath").unwrap();
        let run = page(multipath.find_subcommand("run").unwrap()).unwrap();
        assert!(run.starts_with(".ie") || run.contains(".TH cellerator-multipath-run 1"), "{run}");
        assert!(run.contains("Examples:") && run.contains("keep\\-alive"), "{run}");
    }
}
