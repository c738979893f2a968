//! The demonstration, on the device at hand.

use std::ffi::OsString;
use std::process::Command;

use crate::driver::{devices, use_software};
use crate::error::Result;
use crate::project::run;
use crate::stage::{build, stage, Profile};

/// Builds the demonstration and runs it with `arguments`: on the GPU if there is one, else on the
/// software device.
pub fn rtm(arguments: &[OsString]) -> Result<()> {
    let stage = stage(Profile::Release)?;
    let built = build(&["rtm"], Profile::Release)?;
    let mut command = Command::new(built.find("rtm")?);
    command.args(arguments);
    if devices() == 0 {
        use_software(&mut command, &stage)?;
    }
    run(&mut command)
}
