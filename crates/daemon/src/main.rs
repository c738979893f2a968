//! The program `veloc-backend`: holds the host buffers of a node's jobs, and writes the data of killed
//! jobs.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use daemon::{run, Outcome, Start};
use log::LevelFilter;
use os::logging;
use recovery::{handover, usage, version, SOCKET_OPTION};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let [word, name] = &arguments[..] {
        if word == usage::DROP {
            return free(&name.to_string_lossy());
        }
    }
    let mut path = None;
    let (mut foreground, mut handed_over) = (false, false);
    for argument in &arguments {
        match &*argument.to_string_lossy() {
            "--help" | "-h" => return say(&usage::help()),
            "--version" | "-V" => return say(&format!("{}\n", version())),
            "--disable-ec" => {}
            "--foreground" => foreground = true,
            SOCKET_OPTION => handed_over = true,
            option if option.starts_with('-') => return misuse(&format!("no option {option}")),
            _ if path.is_none() => path = Some(argument),
            given => return misuse(&format!("more than one configuration: {given}")),
        }
    }
    let start = match (path, handed_over) {
        (Some(path), false) => Start::Configuration { path: Path::new(path), foreground },
        // The client tells the configuration; the argument only shows it in process lists.
        (_, true) => Start::HandedOver,
        _ => return misuse("no configuration is given"),
    };
    if foreground {
        logging::start(LevelFilter::Info, |builder| {
            logging::with_time_and_topic(builder);
        });
    }
    match run(&start) {
        Ok(Outcome::Served) => ExitCode::SUCCESS,
        Ok(Outcome::AlreadyThere) => {
            say("veloc-backend: there is one for this configuration already\n")
        }
        Err(error) => {
            eprintln!("veloc-backend: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Has a backend free the memory that it keeps under this name.
fn free(name: &str) -> ExitCode {
    match handover::drop_kept(name) {
        Ok(freed) => {
            say(&freed.iter().map(|kept| format!("freed {}\n", kept.shown())).collect::<String>())
        }
        Err(error) => {
            eprintln!("veloc-backend: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the text. A closed standard output is not an error.
fn say(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn misuse(what: &str) -> ExitCode {
    eprintln!("veloc-backend: {what}\n\n{}", usage::help());
    ExitCode::from(2)
}
