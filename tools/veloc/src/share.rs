//! Files of an installation made from the options of the programs and from the headers: completions for shells, and
//! man pages.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::inspect::upstream::Upstream;
use crate::{backend, functions, output};

/// Print the completions for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Write man pages and completions below a folder such as /usr/share
#[derive(Debug, Args)]
pub(crate) struct Share {
    /// The folder; man/man1, man/man3 and the folders of bash, zsh and fish are made in it
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// For each shell, where it looks for completions below `share`, and the name of the file for a
/// program.
const SHELLS: [(Shell, &str, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "", ""),
    (Shell::Zsh, "zsh/site-functions", "_", ""),
    (Shell::Fish, "fish/vendor_completions.d", "", ".fish"),
];

/// Prints completions of `program`, of its other name, and of veloc-backend.
pub(crate) fn completions(program: Command, asked: &Completions) -> Result<()> {
    let mut text = completion(program, asked.shell);
    // A file for zsh is for one command.
    if asked.shell != Shell::Zsh {
        text += &completion(Upstream::command(), asked.shell);
        text += &completion(backend::described(), asked.shell);
    }
    output::print(&text)
}

/// Writes everything below the folder.
pub(crate) fn share(program: Command, asked: &Share) -> Result<()> {
    let manuals = asked.folder.join("man/man1");
    make(&manuals)?;
    clap_mangen::generate_to(program.clone(), &manuals)
        .with_context(|| format!("man pages in {}", manuals.display()))?;
    write_page(&manuals, Upstream::command(), &program, "inspect")?;
    write_page(&manuals, backend::described(), &program, "backend")?;
    let functions = asked.folder.join("man/man3");
    make(&functions)?;
    for (name, page) in functions::pages() {
        let file = functions.join(format!("{name}.3"));
        fs::write(&file, page).with_context(|| file.display().to_string())?;
    }
    for (shell, folder, before, behind) in SHELLS {
        let folder = asked.folder.join(folder);
        make(&folder)?;
        for command in [program.clone(), Upstream::command(), backend::described()] {
            let file = folder.join(format!("{before}{}{behind}", command.get_name()));
            fs::write(&file, completion(command, shell))
                .with_context(|| file.display().to_string())?;
        }
    }
    Ok(())
}

/// Writes the man page of a program, `other`, with the page of veloc's command of that name as its
/// second half.
fn write_page(manuals: &Path, other: Command, program: &Command, command: &str) -> Result<()> {
    let mut program = program.clone();
    program.build();
    let file = manuals.join(format!("{}.1", other.get_name()));
    let mut page = Vec::new();
    Man::new(other).render(&mut page)?;
    if let Some(command) = program.find_subcommand(command) {
        writeln!(page, ".SH THE COMMAND VELOC {}", command.get_name().to_uppercase())?;
        writeln!(page, "The program veloc has a command of that name, with options of its own.")?;
        let command = Man::new(command.clone());
        command.render_synopsis_section(&mut page)?;
        command.render_description_section(&mut page)?;
        command.render_options_section(&mut page)?;
    }
    fs::write(&file, page).with_context(|| file.display().to_string())
}

fn completion(mut command: Command, shell: Shell) -> String {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}
